/* What the programs in this folder have in common. Each checks itself, and says which line was wrong. */
#ifndef CHECK_H
#define CHECK_H
#include <mcount/live.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NI __attribute__((noinline))
/* Has no hook, whatever the compiler's options are. */
#if defined __s390x__ && !defined __clang__
#define BARE __attribute__((no_instrument_function, patchable_function_entry(0), hotpatch(0, 0), noinline))
#else
#define BARE __attribute__((no_instrument_function, patchable_function_entry(0), noinline))
#endif

/* The first argument of a call at its entry, and its result at its exit; a constraint for vector registers. */
#ifdef __aarch64__
#define ARGUMENT(call) ((call)->registers.x[0])
#define RESULT(call) ((call)->registers.x[0])
#define IN_VECTOR "+w"
#elif defined(__riscv) || defined __loongarch__
#define ARGUMENT(call) ((call)->registers.a[0])
#define RESULT(call) ((call)->registers.a[0])
#define IN_VECTOR "+f"
#elif defined __powerpc64__
#define ARGUMENT(call) ((call)->registers.r[0])
#define RESULT(call) ((call)->registers.r[0])
#define IN_VECTOR "+d"
#elif defined __s390x__
#define ARGUMENT(call) ((call)->registers.r[0])
#define RESULT(call) ((call)->registers.r[0])
#define IN_VECTOR "+f"
#elif defined __arm__
#define ARGUMENT(call) ((call)->registers.r[0])
#define RESULT(call) ((call)->registers.r[0])
#define LONG_ARGUMENT(call) ((uint64_t)(call)->registers.r[1] << 32 | (call)->registers.r[0])
#define LONG_RESULT LONG_ARGUMENT
#define IN_VECTOR "+w"
#elif defined __i386__
#define ARGUMENT(call) (*(long *)(uintptr_t)((call)->stack + 4))
#define RESULT(call) ((call)->registers.eax)
#define LONG_ARGUMENT(call) (*(uint64_t *)(uintptr_t)((call)->stack + 4))
#define LONG_RESULT(call) ((uint64_t)(call)->registers.edx << 32 | (call)->registers.eax)
#define IN_VECTOR "+x"
#else
#define ARGUMENT(call) ((call)->registers.rdi)
#define RESULT(call) ((call)->registers.rax)
#define IN_VECTOR "+x"
#endif

/* The same of 64 bits. */
#ifndef LONG_RESULT
#define LONG_ARGUMENT ARGUMENT
#define LONG_RESULT RESULT
#endif

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, mcount_error()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)
#endif
