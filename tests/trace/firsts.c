/* AArch64: calls functions that begin with instructions that depend on where they are, and with ones that sign the return address: a
 * hundred times each, and checks their results. Their pages are guarded where the processor can do that: whoever calls by a register has to
 * end at a landing pad. */
#include <stdio.h>
#include <sys/mman.h>

#define FUNCTION(name, body)                                                                                           \
    long name(long, double);                                                                                           \
    __asm__(".section .guarded, \"ax\", %progbits\n"                                                                  \
            ".balign 16\n"                                                                                             \
            ".globl " #name "\n"                                                                                       \
            ".type " #name ", %function\n"                                                                             \
            #name ":\n"                                                                                                \
            ".cfi_startproc\n" body ".cfi_endproc\n"                                                                   \
            ".size " #name ", . - " #name "\n")

#define PAD "hint #34\n" /* bti c: where calls by a register may lead */
#define SIGN ".cfi_negate_ra_state\n"

__asm__(".section .rodata\n.balign 16\nnumbers: .quad 40, 2, 41, -3\n"
        ".section .guarded, \"ax\", %progbits\n.balign 4096\nguarded:\n.text\n");

FUNCTION(by_adr, "adr x1, numbers\n ldr x1, [x1]\n add x0, x0, x1\n ret\n");
FUNCTION(by_adrp, "adrp x1, numbers\n add x1, x1, :lo12:numbers\n ldr x1, [x1, #8]\n add x0, x0, x1\n ret\n");
FUNCTION(by_literal, "ldr x1, numbers\n add x0, x0, x1\n ret\n");
FUNCTION(by_word, "ldrsw x1, numbers + 24\n add x0, x0, x1\n ret\n");
FUNCTION(by_vector, "ldr q1, numbers + 16\n umov x1, v1.d[0]\n add x0, x0, x1\n ret\n");
FUNCTION(by_jump, "b by_literal\n");
FUNCTION(by_zero, "cbz x0, 1f\n add x0, x0, #7\n ret\n 1: mov x0, #9\n ret\n");
FUNCTION(by_bit, "tbz x0, #0, 1f\n mov x0, #1\n ret\n 1: mov x0, #2\n ret\n");
FUNCTION(only_returns, "ret\n");
FUNCTION(behind_pad, PAD "cbz x0, 1f\n mov x0, #1\n ret\n 1: mov x0, #3\n ret\n");
FUNCTION(signs, "hint #25\n" SIGN "stp x29, x30, [sp, #-16]!\n .cfi_def_cfa_offset 16\n .cfi_offset 29, -16\n .cfi_offset 30, -8\n"
                "mov x29, sp\n bl only_returns\n add x0, x0, #5\n ldp x29, x30, [sp], #16\n .cfi_restore 30\n .cfi_restore 29\n"
                ".cfi_def_cfa_offset 0\n hint #29\n" SIGN "ret\n");
/* With the other key. Unwinders aren't told, as no exception passes through. */
FUNCTION(signs_otherwise, "hint #27\n" SIGN "stp x29, x30, [sp, #-32]!\n .cfi_def_cfa_offset 32\n"
                          ".cfi_offset 29, -32\n .cfi_offset 30, -24\n mov x29, sp\n add x0, x0, #6\n ldp x29, x30, [sp], #32\n"
                          ".cfi_restore 30\n .cfi_restore 29\n .cfi_def_cfa_offset 0\n hint #31\n" SIGN "ret\n");
FUNCTION(signs_behind_pad, PAD "hint #25\n" SIGN "adrp x1, numbers\n str x30, [sp, #-16]!\n .cfi_def_cfa_offset 16\n .cfi_offset 30, -16\n"
                           "ldr x1, [x1, :lo12:numbers]\n add x0, x0, x1\n ldr x30, [sp], #16\n .cfi_restore 30\n"
                           ".cfi_def_cfa_offset 0\n hint #29\n" SIGN "ret\n");

__asm__(".section .guarded\n.balign 4096\nguarded_end:\n.text\n");
extern char guarded[], guarded_end[];

int main(void) {
    long wrong = 0;
    mprotect(guarded, guarded_end - guarded, PROT_READ | PROT_EXEC | 0x10 /* PROT_BTI */);
    for (volatile long i = 0; i < 100; i++) {
        long n = i;
        wrong += by_adr(n, 0) != n + 40;
        wrong += by_adrp(n, 0) != n + 2;
        wrong += by_word(n, 0) != n - 3;
        wrong += by_vector(n, 0) != n + 41;
        wrong += by_jump(n, 0) != n + 40;
        wrong += by_zero(n % 2, 0) != (n % 2 ? 8 : 9);
        wrong += by_bit(n, 0) != (n % 2 ? 1 : 2);
        long (*volatile pointer)(long, double) = behind_pad;
        wrong += pointer(n % 2, 0) != (n % 2 ? 1 : 3);
        pointer = signs;
        wrong += pointer(n, 0) != n + 5;
        wrong += signs_otherwise(n, 0) != n + 6;
        pointer = signs_behind_pad;
        wrong += pointer(n, 0) != n + 40;
    }
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
