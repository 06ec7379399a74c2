// A function jumps behind the first byte of one of its instructions; what is there jumps into the first bytes of another function.
//# refuse: f branch
//# force: f 5
#include "function.h"
int f(int), g(int);
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\njmp 1f + 1\n1: .byte 0xb8\njmp f+2\nnop\nnop\nnop\nnop\nnop\nnop\nret");
int main(void) { printf("%d %d\n", f(1), g(1)); }
