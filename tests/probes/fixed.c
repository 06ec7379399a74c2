// A word leads into the first bytes, without a relocation, because the program isn't position-independent. It isn't aligned, either.
//# flags: -no-pie
//# refuse: f pointer
//# force: f 5
//# planned: g
#include "function.h"
int f(int), g(int);
asm(".section .rodata\n.byte 1\ntable: .quad f+2");
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\njmp *table(%rip)");
int main(void) { printf("%d %d\n", f(1), g(1)); }
