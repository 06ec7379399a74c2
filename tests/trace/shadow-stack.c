/* What a processor with a shadow stack does where a return address isn't the one that was called from, done by the program itself:
 * before it returns, a function gets SIGSEGV with the code for that (SEGV_CPERR), its stack pointer at the return address. Then that
 * has to be the true one. */
#include "hits.h"
#include <signal.h>
#include <sys/syscall.h>
TRUTH()
siginfo_t info;
int process;
unsigned long returned_to;
NI int leaf(int n) {
    HIT();
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
/* As gcc makes it with -pg, and at its end rt_sigqueueinfo(process, SIGSEGV, &info). */
void returns(int n);
__asm__("    .text\n"
        "    .type returns, @function\n"
        "returns:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    call *mcount@GOTPCREL(%rip)\n"
        "    call leaf\n"
        "    popq %rbp\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    movl process(%rip), %edi\n"
        "    movl $11, %esi\n"
        "    leaq info(%rip), %rdx\n"
        "    movl $129, %eax\n"
        "    syscall\n"
        "    movq (%rsp), %rax\n"
        "    movq %rax, returned_to(%rip)\n"
        "    ret\n"
        "    .cfi_endproc\n"
        "    .size returns, . - returns\n");
int main(void) {
    process = getpid();
    info.si_code = 10;
    signal(SIGSEGV, SIG_IGN);
    unsigned long begin = (unsigned long)main, wrong = 0;
    for (int i = 0; i < 10; i++) {
        returns(i);
        wrong += returned_to - begin > 500;
    }
    printf("%lu\n", wrong);
    return 0;
}
