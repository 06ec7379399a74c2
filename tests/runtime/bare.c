/* The three things that the oracle wants of a system, by system call: for the processors that run
   under qemu and have no C library here. */
#include "oracle.h"

#if defined __loongarch__ || defined __riscv || defined __aarch64__
#define SYS_WRITE 64
#define SYS_MPROTECT 226
#elif defined __arm__ || defined __sh__
#define SYS_WRITE 4
#define SYS_MPROTECT 125
#elif defined __sparc__
#define SYS_WRITE 4
#define SYS_MPROTECT 74
#elif defined __mips__ && _MIPS_SIM == _ABIN32
#define SYS_WRITE 6001
#define SYS_MPROTECT 6010
#elif defined __mips__ && _MIPS_SIM == _ABI64
#define SYS_WRITE 5001
#define SYS_MPROTECT 5010
#endif

#if defined __sparc__
#define PAGE 8192
#elif defined __loongarch__
#define PAGE 16384
#else
#define PAGE 4096
#endif
#define READ_WRITE_EXECUTE 7

/* PROCESSOR/bare.S, which also has _start. */
long raw_call(long number, long a, long b, long c) __attribute__((visibility("hidden")));

int make_writable(void *start, unsigned size) {
    word first = (word)start & -(word)PAGE;
    word end = ((word)start + size + PAGE - 1) & -(word)PAGE;
    return !raw_call(SYS_MPROTECT, first, end - first, READ_WRITE_EXECUTE);
}

/* qemu sees code change by itself. */
void flush(void *start, unsigned size) {
    (void)start;
    (void)size;
}

void say(const char *text, unsigned size) {
    raw_call(SYS_WRITE, 1, (long)text, size);
}

/* Compilers call it without being asked. */
void *memset(void *start, int value, __SIZE_TYPE__ size) {
    for (volatile byte *at = start; size--;)
        *at++ = value;
    return start;
}
