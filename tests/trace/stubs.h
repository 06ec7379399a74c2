/* Backtraces in handlers of SIGPROF, which may interrupt the stub of a hook. */
#ifndef STUBS_H
#define STUBS_H
#include "hits.h"
#include <dlfcn.h>

/* A program's own stubs have no unwind information: a sample that is taken in one ends there. */
QUIET static int is_in_stub(int n, void **frames) {
#ifdef BARE_STUBS
    Dl_info info;
    return n == 3 && !dladdr(frames[2], &info);
#else
    (void)n, (void)frames;
    return 0;
#endif
}
#endif
