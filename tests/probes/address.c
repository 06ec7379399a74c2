// An instruction takes the address inside the first bytes.
//# refuse: f address
//# force: f 5
//# planned: g
#include "function.h"
int f(int), g(int);
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\nlea f+2(%rip), %rcx\njmp *%rcx");
int main(void) { printf("%d %d\n", f(1), g(1)); }
