/* Backtraces in handlers of SIGPROF, which may interrupt the stub of a hook. */
#ifndef STUBS_H
#define STUBS_H
#include "hits.h"
#include <dlfcn.h>

/* A program's own stubs have no unwind information, nor has the jump to the agent's: a sample that is taken in one ends there. */
QUIET static int is_in_stub(int n, void **frames) {
    Dl_info info;
    if (n != 3 || dladdr(frames[2], &info))
        return 0;
#ifdef BARE_STUBS
    return 1;
#elif defined(__x86_64__)
    return !memcmp(frames[2], "\xff\x25\0\0\0", 6);
#else
    return 0;
#endif
}
#endif
