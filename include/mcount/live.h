/* A program arms its own hooks with this library, while it runs.
 *
 * A hook is code at a function's entry that compilers leave for tracers: -fpatchable-function-entry, -pg -mfentry, -pg.
 * Link with libmcount-live. It works on Linux on x86-64, i386, AArch64, Arm, LoongArch, RISC-V, s390x and powerpc64le. docs/inside.md explains it. */
#ifndef MCOUNT_LIVE_H
#define MCOUNT_LIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that can fail returns the negative of one of these, or else a number that isn't negative.
 * mcount_error() has a text for people. */
enum mcount_code {
    MCOUNT_NO_MATCH = 1,     /* no function with a hook matches */
    MCOUNT_BAD_PATTERN = 2,  /* the pattern is malformed */
    MCOUNT_FOREIGN = 3,      /* another tracer or a debugger has changed the hook */
    MCOUNT_UNSUITABLE = 4,   /* this hook doesn't allow it */
    MCOUNT_BUSY = 5,         /* called from a handler at the wrong time, or a second trace */
    MCOUNT_THREADS = 6,      /* other threads run, and the library can't stop them for a moment */
    MCOUNT_DENIED = 7,       /* the system doesn't let the program change its code */
    MCOUNT_NO_ROOM = 8,      /* no free memory near the module */
    MCOUNT_FILE = 9,         /* a file can't be read or written */
    MCOUNT_UNSUPPORTED = 10, /* this processor or system isn't supported */
    MCOUNT_ARGUMENT = 11     /* an argument makes no sense */
};

/* The text of this thread's last error, until its next one. */
const char *mcount_error(void);

/* A function that has a hook. The strings stay. */
struct mcount_function {
    const char *name;   /* as people write it; empty if no symbol has it */
    const char *symbol; /* as the symbol table has it */
    const char *module; /* the path of its file */
#ifdef __i386__
    uint32_t reserved;
#endif
    uint64_t address;
    uint64_t size; /* in bytes; 0 if no symbol has it */
};

/* Registers that can hold arguments, and a result. */
struct mcount_registers {
#ifdef __aarch64__
    uint64_t x[9]; /* x0 to x7: the arguments, and the result; x8: where a result in memory goes */
    /* Only to be looked at. */
    uint64_t x29; /* entry: the caller's frame pointer */
    uint64_t sp;  /* entry: the stack pointer */
    uint64_t pc;  /* entry: where the hook is */
#elif defined(__riscv)
    uint64_t a[8]; /* a0 to a7: the arguments; a0 and a1: the result */
    uint64_t t2;   /* the static chain of nested functions */
    /* Only to be looked at. */
    uint64_t s0; /* entry: the caller's, which may be its frame pointer */
    uint64_t sp; /* entry: the stack pointer */
    uint64_t pc; /* entry: where the hook is */
#elif defined __loongarch__
    uint64_t a[8]; /* a0 to a7: the arguments; a0 and a1: the result */
    uint64_t t8;   /* the static chain of nested functions */
    /* Only to be looked at. */
    uint64_t fp; /* entry: the caller's, which may be its frame pointer */
    uint64_t sp; /* entry: the stack pointer */
    uint64_t pc; /* entry: where the hook is */
#elif defined __powerpc64__
    uint64_t r[8]; /* r3 to r10: the arguments; the first two are the result */
    uint64_t r11;  /* the static chain of nested functions */
    /* Only to be looked at. */
    uint64_t sp; /* entry: the stack pointer */
    uint64_t pc; /* entry: where the hook is */
#elif defined __s390x__
    uint64_t r[5]; /* r2 to r6: the arguments; the first is the result */
    uint64_t r0;   /* the static chain of nested functions */
    /* Only to be looked at, as r6. */
    uint64_t sp; /* entry: the stack pointer */
    uint64_t pc; /* entry: where the hook is */
#elif defined __arm__
    uint32_t r[4]; /* r0 to r3: the arguments; the first, or the first two, are the result */
    uint32_t ip;   /* entry: the static chain of nested functions */
    /* Only to be looked at. */
    uint32_t fp; /* entry: the caller's r11, which may be its frame pointer */
    uint32_t sp; /* entry: the stack pointer */
    uint32_t pc; /* entry: where the hook is */
#elif defined __i386__
    uint32_t eax; /* exit: the result */
    uint32_t ecx; /* entry: often the static chain of nested functions */
    uint32_t edx; /* exit: the upper half of a result of 64 bits */
#else
    uint64_t rdi, rsi, rdx, rcx, r8, r9; /* the arguments, the first one first */
    uint64_t rax; /* entry: al is the number of vector registers in a variadic call; exit: the result */
    uint64_t r10; /* the static chain of nested functions */
#endif
};

union mcount_vector {
    float f32[4];
    double f64[2];
    uint64_t u64[2];
    uint8_t bytes[16];
};

/* How a call ended. */
enum mcount_end {
    MCOUNT_RETURN = 0,
    MCOUNT_TAIL_CALL = 1, /* it jumped to another watched function, which returns in its place */
    MCOUNT_UNWOUND = 2    /* an exception left it */
};

/* A call, as its handlers see it. Registers that they change are changed for the program. */
struct mcount_call {
    struct mcount_registers registers;
    /* The arguments that aren't in registers are 8 bytes after this address (i386, Arm: 4 bytes). The return address is at it
     * on x86-64 and i386. */
    uint64_t stack;
    uint64_t return_address;
    const struct mcount_function *function;
    uint64_t data;   /* the handlers' own: 0 at the entry, and kept for the exit */
    uint64_t target; /* entry: where the call goes; another function of the same type may be put here */
    /* xmm0 to xmm15 (i386: xmm7), q0 to q15, fa0 to fa7 (RISC-V), vr0 to vr15 (LoongArch), d0 to d7 (Arm), f0 to f15 (s390x),
     * f1 to f13 (powerpc64le); NULL without MCOUNT_VECTORS */
    union mcount_vector *vectors;
    union mcount_vector *vectors_high; /* the upper halves of ymm0 to ymm15; NULL also without AVX */
    uint32_t end;                      /* exit: one of enum mcount_end */
};

/* The results of an entry handler. */
enum mcount_action {
    MCOUNT_CONTINUE = 0,
    /* The function isn't run: its caller finds the result that is in the registers. (i386: it's run, and mcount_missed() counts it,
     * if its code doesn't say how many bytes of arguments it takes off the stack.) */
    MCOUNT_SKIP = 1
};

typedef int mcount_entry_handler(struct mcount_call *call, void *data);
typedef void mcount_exit_handler(struct mcount_call *call, void *data);

/* A pair of handlers, or a trace, which sees calls. */
typedef struct mcount_tracer mcount_tracer;

/* Flags of mcount_handlers. */
enum mcount_wanted {
    MCOUNT_VECTORS = 1 /* the handlers see vector registers, and may change them */
};

/* Makes a pair of handlers. One of them may be NULL. Returns NULL if an argument makes no sense.
 *
 * Handlers run in the thread that calls the function, wherever it does: in a signal handler as well, or while it holds
 * a lock. The library doesn't show handlers the calls that they make themselves. They must return: no longjmp, no exception. */
mcount_tracer *mcount_handlers(mcount_entry_handler *entry, mcount_exit_handler *exit, void *data, unsigned flags);

/* Creates a trace, in the place of an older one. The library records the calls of functions that are armed for it, and
 * `mcount replay` prints them. Returns NULL if it can't write the file, or if it records another trace. The trace ends when
 * it's closed, or when the program exits. If the program is killed, the trace has the calls so far. mcount_close returns
 * whether calls are missing. */
mcount_tracer *mcount_trace(const char *path);

/* Arms functions for the tracer, which sees their calls from now on, or disarms them. Returns the number of functions. All
 * threads may run meanwhile. Either all functions are armed, or none is.
 *
 * A pattern is GLOB, GLOB@MODULE or @MODULE. Names are as people write them, or as the symbol table has
 * them. Disarming with NULL for a pattern disarms everything. When that returns, another thread may still be in a
 * handler. An address may be anywhere in a function. */
long mcount_arm(mcount_tracer *tracer, const char *pattern);
long mcount_arm_address(mcount_tracer *tracer, const void *address);
long mcount_disarm(mcount_tracer *tracer, const char *pattern);
long mcount_disarm_address(mcount_tracer *tracer, const void *address);

/* Disarms everything that the tracer sees, and frees it. */
int mcount_close(mcount_tracer *tracer);

/* Makes functions ready to be armed, and does nothing else. A program that does this before it has threads can arm them
 * later even where it isn't allowed to stop its threads. Returns the number of functions. */
long mcount_prepare(const char *pattern);

/* Sends the calls of one function to another one of the same type, in all threads. Unless original is NULL, it gets an
 * address that calls the function itself. */
int mcount_replace(const void *function, const void *replacement, const void **original);
/* Sends its calls to itself again. */
int mcount_put_back(const void *function);

/* Looks for modules that were opened since, by dlopen. */
int mcount_rescan(void);

/* How sites are changed while other threads run. */
enum mcount_protocol {
    MCOUNT_ONE_BYTE = 0,   /* one byte is changed, and no thread stops or traps: the default */
    MCOUNT_BREAKPOINT = 1, /* a breakpoint is there meanwhile; threads that run into it get SIGTRAP */
    MCOUNT_STOPPED = 2     /* all other threads are stopped meanwhile; x86-64 and i386 only, elsewhere as the first */
};
int mcount_protocol(int protocol);

/* The number of calls that handlers didn't see, because one was running in the same thread. */
uint64_t mcount_missed(void);

/* The things that the library could not do, a line each; NULL after the last one. Valid until this thread's next call. */
const char *mcount_note(unsigned number);

#ifdef __cplusplus
}
#endif

/* mcount_mark("phase 2") puts a marker into the trace. */
#include <mcount/mark.h>
#endif
