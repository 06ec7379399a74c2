/* A library that is preloaded before all others: whoever asks the C library for memory or for a signal by one of
 * these names, other than the program and the C library, ends the program. Its constructors make traced calls. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define BARE __attribute__((no_instrument_function, patchable_function_entry(0)))
/* The modules that may. */
BARE static void check(void *caller) {
    static __thread int is_inside;
    Dl_info found;
    /* The recorder is given the variable as well. */
    int is_traced = strcmp(program_invocation_short_name, "mcount") != 0;
    if (is_inside++ == 0 && is_traced && (!dladdr(caller, &found) || strstr(found.dli_fname, "mcount") || strstr(found.dli_fname, "memfd")))
        abort();
    is_inside--;
}
#define HOSTILE(type, name, parameters, arguments)            \
    BARE type name parameters {                               \
        static type(*own) parameters;                         \
        check(__builtin_return_address(0));                   \
        if (!own)                                             \
            own = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        return own arguments;                                 \
    }
HOSTILE(void *, mmap, (void *p, size_t n, int a, int b, int c, off_t d), (p, n, a, b, c, d))
HOSTILE(int, munmap, (void *p, size_t n), (p, n))
HOSTILE(int, madvise, (void *p, size_t n, int a), (p, n, a))
HOSTILE(int, mprotect, (void *p, size_t n, int a), (p, n, a))
HOSTILE(int, sigprocmask, (int a, const sigset_t *b, sigset_t *c), (a, b, c))
HOSTILE(pid_t, getpid, (void), ())
HOSTILE(long, sysconf, (int a), (a))
/* Nobody but the program may copy memory by these names: a tracer has to bring its own. */
BARE void *memcpy(void *to, const void *from, size_t n) {
    check(__builtin_return_address(0));
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
static int count;
__attribute__((noinline)) int hostile_leaf(int n) { return count += n; }
__attribute__((constructor)) static void begins(void) { hostile_leaf(3); }
int getpagesize(void) { return hostile_leaf(12342); }
