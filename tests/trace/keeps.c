/* Calls a function that changes nothing but %rax, with something in all other general registers, as gcc does where it knows what a
 * function leaves alone (-fipa-ra). */
#include <stdio.h>

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
