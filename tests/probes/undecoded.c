// A function with data in it jumps into the first bytes of another one.
//# refuse: f branch
//# refuse: g not-decoded
//# force: f 5
#include "function.h"
int f(int), g(int);
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\njmp 1f\n.byte 6\n1: jmp f+2");
int main(void) { printf("%d %d\n", f(1), g(1)); }
