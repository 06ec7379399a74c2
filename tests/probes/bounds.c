// Nothing tells where the function ends.
//# refuse: f no-bounds
#include "function.h"
int f(int);
asm(".text\n.globl f\n.type f,@function\nf: mov $5, %eax\nret\n");
int main(void) { printf("%d\n", f(1)); }
