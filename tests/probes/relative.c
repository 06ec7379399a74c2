// A jump table of another function leads into the first bytes.
//# refuse: f table
//# force: f 5
//# planned: g
#include "function.h"
int f(int), g(int);
asm(".section .rodata\n.p2align 2\ntable: .long 1f - table, f+2 - table\n.text\n1: ud2");
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\nlea table(%rip), %rdx\nmovslq 4(%rdx), %rcx\nadd %rdx, %rcx\njmp *%rcx");
int main(void) { printf("%d %d\n", f(1), g(1)); }
