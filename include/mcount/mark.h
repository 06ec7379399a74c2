/* mcount_mark("phase 2") puts a marker into the trace of the program, wherever the trace comes from: `mcount trace`,
 * `mcount attach`, or mcount_trace() in <mcount/live.h>. `mcount replay` shows it among the calls of its thread, as
 * ftrace does.
 *
 * This header is enough, without a library. Without a trace, a marker costs a call of a function that does next to
 * nothing. mcount records the first 64 bytes of the text. Call it anywhere, in a signal handler as well. */
#ifndef MCOUNT_MARK_H
#define MCOUNT_MARK_H

#ifdef __cplusplus
extern "C" {
#endif

/* That of libmcount-live, for a trace that the program records of itself. */
#ifdef MCOUNT_LIVE_H
void mcount_live_mark(const char *text);
#else
void mcount_live_mark(const char *text) __attribute__((weak));
#endif

/* mcount knows the function by its name, so it has to be one, with a hook at its entry, and get what it's called with. */
#if defined(__has_attribute)
#if __has_attribute(patchable_function_entry) && (defined(__x86_64__) || defined(__i386__))
#define MCOUNT_MARK_HOOK patchable_function_entry(5, 0),
#elif __has_attribute(patchable_function_entry) && (defined(__aarch64__) || defined(__loongarch__))
#define MCOUNT_MARK_HOOK patchable_function_entry(2, 0),
#elif __has_attribute(patchable_function_entry) && defined(__arm__)
#define MCOUNT_MARK_HOOK patchable_function_entry(3, 2),
#elif __has_attribute(patchable_function_entry) && defined(__riscv)
#define MCOUNT_MARK_HOOK patchable_function_entry(5, 4),
#endif
#if __has_attribute(noipa)
#define MCOUNT_MARK_KEPT noipa,
#endif
#endif
#ifndef MCOUNT_MARK_HOOK
#define MCOUNT_MARK_HOOK
#endif
#ifndef MCOUNT_MARK_KEPT
#define MCOUNT_MARK_KEPT
#endif

__attribute__((MCOUNT_MARK_HOOK MCOUNT_MARK_KEPT noinline, unused, no_instrument_function)) static void
mcount_mark(const char *text)
{
    /* Compilers that know all callers must not pass less than there is: so its address is taken. */
    __asm__ volatile("" : : "r"(text), "r"(mcount_mark) : "memory");
#ifndef MCOUNT_LIVE_H
    if (mcount_live_mark)
#endif
        mcount_live_mark(text);
}

#undef MCOUNT_MARK_HOOK
#undef MCOUNT_MARK_KEPT

#ifdef __cplusplus
}
#endif
#endif
