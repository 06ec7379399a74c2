// A function with another entry in it, farther than the first bytes.
//# planned: f
//# planned: g
#include "function.h"
int f(int), g(int);
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\n.globl g\n.type g,@function\ng: add $1, %edi\nmov %edi, %eax\n.size g, .-g\nnop\nret");
int main(void) { printf("%d %d\n", f(1), g(2)); }
