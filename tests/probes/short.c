// Three bytes, and another function behind them.
//# refuse: f too-short
//# force: f 3
#include "function.h"
int f(int), g(int);
asm(".text\n.p2align 4\n.globl f, g\n.type f, @function\n.type g, @function\n"
    "f: mov %edi, %eax\nret\n.size f, 3\ng: lea 1(%rdi), %eax\nret\n.size g, 4\n");
int main(void) { printf("%d %d\n", f(1), g(1)); }
