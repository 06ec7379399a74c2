// The function's own jump table leads into the first bytes. Its first word leads nowhere.
//# refuse: f table
//# force: f 5
#include "function.h"
int f(int);
asm(".section .rodata\n.p2align 2\ntable: .long 0x7fffffff, f+2 - table");
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\ncmp $50, %eax\njg 1f\nlea table(%rip), %rdx\n"
            "movslq 4(%rdx), %rcx\nadd %rdx, %rcx\njmp *%rcx\n1: ret");
int main(void) { printf("%d\n", f(1)); }
