/* Times calls of an empty function, and readings of the clock, in nanoseconds each: "call 1.23 clock 19.8". With LIBRARY, it's a
 * function of the C library that does next to nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define BARE __attribute__((noinline, no_instrument_function, patchable_function_entry(0)))
#ifdef __clang__
#define NEVER __attribute__((xray_never_instrument))
#else
#define NEVER
#endif
/* Some tools need more bytes than a return. */
#ifdef LONGER
#define BODY "nopw 0(%rax,%rax,1); nopw 0(%rax,%rax,1)"
#else
#define BODY ""
#endif
__attribute__((noinline)) void empty(void) { __asm__ volatile(BODY); }
#ifdef LIBRARY
#define EMPTY() free(0)
#else
#define EMPTY() empty()
#endif
NEVER BARE static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
NEVER BARE static double calls(long n) {
    double start = now();
    for (long i = 0; i < n; i++)
        EMPTY();
    return (now() - start) / n;
}
NEVER BARE static double clocks(long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        unsigned low, high;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    }
    return (now() - start) / n;
}
NEVER BARE int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    /* Once, so that memory and caches are as they will be. */
    calls(n / 10);
    double call = calls(n);
    printf("call %.3f clock %.3f\n", call, clocks(n / 10));
    return 0;
}
