// Code that has neither a symbol nor unwind information jumps into the first bytes.
//# refuse: f branch
//# force: f 5
#include "function.h"
int f(int);
extern int (*hidden)(int);
asm(".data\n.p2align 3\n.globl hidden\nhidden: .quad 1f\n.text\n.byte 6\n1: mov $100, %eax\njmp f+2");
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
int main(void) { printf("%d %d\n", f(1), hidden(1)); }
