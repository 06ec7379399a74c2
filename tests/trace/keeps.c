/* Calls a function that changes nothing but the register of its result, with something in all other general registers, as gcc does where
 * it knows what a function leaves alone (-fipa-ra). */
#include <stdio.h>

#ifdef __aarch64__
__asm__(".text\n"
        ".globl keeps_all\n"
        ".type keeps_all, %function\n"
        "keeps_all:\n"
        ".cfi_startproc\n"
        "add x0, x0, #1\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size keeps_all, . - keeps_all\n");

int main(void) {
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < 10000; i++) {
        unsigned long flags = i % 16 << 28;
        __asm__ volatile("mov x0, %1\n"
                         ".irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18\n"
                         "add x\\number, x0, #\\number\n"
                         ".endr\n"
                         "dup v31.2d, x17\n msr nzcv, %2\n bl keeps_all\n"
                         "mrs x30, nzcv\n cmp x30, %2\n cinc %0, %0, ne\n"
                         ".irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18\n"
                         "sub x30, x\\number, x0\n cmp x30, #(\\number - 1)\n cinc %0, %0, ne\n"
                         ".endr\n"
                         "umov x30, v31.d[1]\n cmp x30, x17\n cinc %0, %0, ne\n"
                         : "+r"(wrong)
                         : "r"(i), "r"(flags)
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                           "x13", "x14", "x15", "x16", "x17", "x18", "x30", "v31", "cc", "memory");
    }
    printf("%lu wrong\n", wrong);
    return wrong != 0;
}
#else
__asm__(".text\n"
        ".globl keeps_all\n"
        ".type keeps_all, @function\n"
        "keeps_all:\n"
        ".cfi_startproc\n"
        "leaq 1(%rdi), %rax\n"
        "nopl 0(%rax)\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size keeps_all, . - keeps_all\n");

int main(void) {
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < 10000; i++) {
        register unsigned long r8 __asm__("r8") = i ^ 0x1111, r9 __asm__("r9") = i ^ 0x2222;
        register unsigned long r10 __asm__("r10") = i ^ 0x3333, r11 __asm__("r11") = i ^ 0x4444;
        unsigned long rax, rcx = i ^ 0x5555, rdx = i ^ 0x6666, rsi = i ^ 0x7777, rdi = i;
        __asm__ volatile("lea -128(%%rsp), %%rsp\n call keeps_all\n lea 128(%%rsp), %%rsp"
                         : "=a"(rax), "+c"(rcx), "+d"(rdx), "+S"(rsi), "+D"(rdi), "+r"(r8),
                           "+r"(r9), "+r"(r10), "+r"(r11)
                         :
                         : "memory", "cc");
        wrong += rax != i + 1 || rdi != i || rcx != (i ^ 0x5555) || rdx != (i ^ 0x6666)
            || rsi != (i ^ 0x7777) || r8 != (i ^ 0x1111) || r9 != (i ^ 0x2222)
            || r10 != (i ^ 0x3333) || r11 != (i ^ 0x4444);
    }
    printf("%lu wrong\n", wrong);
    return wrong != 0;
}
#endif
