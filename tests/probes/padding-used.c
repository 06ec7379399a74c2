// What looks like padding is executed.
//# refuse: f branch
//# force: f 3
#include "function.h"
int f(int), g(int);
asm(".text\n.p2align 4\n.globl f\n.type f, @function\nf: mov %edi, %eax\nret\n.size f, 3\n"
    "nop\nnop\nnop\nnop\nlea 1(%rdi), %eax\nret\n");
FUNCTION(g, "jmp f+4");
int main(void) { printf("%d %d\n", f(1), g(1)); }
