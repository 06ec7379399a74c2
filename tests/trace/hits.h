/* The program counts its own entries: the truth that a trace is compared with.
 *
 * HIT() is the first statement of a function that counts. TRUTH() is once in each program; at exit it
 * appends "process function count" lines to the file that the variable TRUTH names. A forked child calls
 * CHILD() first, because it has only calls that it enters itself, and LEAVE() instead of _exit. */
#ifndef HITS_H
#define HITS_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NI __attribute__((noinline))
/* Has no hook, whatever the compiler's options are. */
#if defined __s390x__ && !defined __clang__
#define BARE no_instrument_function, patchable_function_entry(0), hotpatch(0, 0)
#elif defined __clang__ && defined __x86_64__
#define BARE no_instrument_function, patchable_function_entry(0), xray_never_instrument
#else
#define BARE no_instrument_function, patchable_function_entry(0)
#endif
#define QUIET __attribute__((BARE, noinline))

/* Where the frame of a function ends. On AArch64, clang has the frame pointer for it. */
#if defined __clang__ && defined __aarch64__
#define FRAME_END() ((void *)((char *)__builtin_frame_address(0) + 16))
#else
#define FRAME_END() __builtin_dwarf_cfa()
#endif

/* Lets other threads run, as far as the processor can. */
#ifdef __aarch64__
#define PAUSE() __asm__ volatile("yield")
#elif defined(__riscv) || defined __loongarch__
#define PAUSE() __asm__ volatile("nop")
#elif defined __x86_64__ || defined __i386__
#define PAUSE() __asm__ volatile("pause")
#else
#define PAUSE() __asm__ volatile("" ::: "memory")
#endif

/* A part of waiting to be cancelled. QEMU (7.2) returns from signal handlers of powerpc64le by code that unwinders don't know for
 * that, so cancellation in a system call calls no destructors there, whatever the program is. */
#ifdef __powerpc64__
#define AWAIT_CANCELLATION() (pthread_testcancel(), sched_yield())
#else
#define AWAIT_CANCELLATION() usleep(100)
#endif

struct hit {
    const char *name;
    unsigned long count;
};
extern struct hit hits_[64];
/* There if tests/live/watch.c is linked in: 1: writes what it has counted; 0: begins at zero. */
#ifdef __cplusplus
extern "C"
#endif
    void watched_(int is_end) __attribute__((weak));

static inline __attribute__((always_inline, no_instrument_function)) unsigned long *
slot_(const char *name)
{
    for (int i = 0; i < 64; i++) {
        const char *none = 0;
        if (__atomic_compare_exchange_n(&hits_[i].name, &none, name, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return &hits_[i].count;
        if (none == name || !strcmp(none, name))
            return &hits_[i].count;
    }
    abort();
}

#define HIT()                                                            \
    do {                                                                 \
        static unsigned long *here_;                                     \
        unsigned long *at_ = __atomic_load_n(&here_, __ATOMIC_ACQUIRE);  \
        if (!at_) {                                                      \
            at_ = slot_(__func__);                                       \
            __atomic_store_n(&here_, at_, __ATOMIC_RELEASE);             \
        }                                                                \
        __atomic_fetch_add(at_, 1, __ATOMIC_RELAXED);                    \
    } while (0)

#define TRUTH()                                                                       \
    struct hit hits_[64];                                                             \
    QUIET static void truth_(void)                                                    \
    {                                                                                 \
        const char *path = getenv("TRUTH");                                           \
        FILE *file = path ? fopen(path, "a") : 0;                                     \
        if (!file)                                                                    \
            return;                                                                   \
        for (int i = 0; i < 64 && hits_[i].name; i++)                                 \
            fprintf(file, "%d %s %lu\n", (int)getpid(), hits_[i].name, hits_[i].count); \
        fclose(file);                                                                 \
        if (watched_)                                                                 \
            watched_(1);                                                              \
    }                                                                                 \
    __attribute__((constructor, BARE)) static void truth_at_exit_(void) { atexit(truth_); }

#define CHILD()                         \
    do {                                \
        for (int i = 0; i < 64; i++)    \
            hits_[i].count = 0;         \
        if (watched_)                   \
            watched_(0);                \
    } while (0)
#define LEAVE(code)        \
    do {                   \
        int code_ = (code); \
        truth_();          \
        _exit(code_);      \
    } while (0)
#endif
