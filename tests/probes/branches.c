// Branches of all kinds in the first bytes.
//# planned: f
//# planned: g
//# planned: h
//# planned: i
#include "function.h"
int f(int), g(int), h(long), i(int);
FUNCTION(f, "test %edi, %edi\njs 1f\nmov $1, %eax\nret\n1: mov $2, %eax\nret");
FUNCTION(g, "jmp 1f\nnop\nnop\nnop\n1: mov $3, %eax\nret");
FUNCTION(h, "mov %rdi, %rcx\njrcxz 1f\nmov $4, %eax\nret\n1: mov $5, %eax\nret");
FUNCTION(i, "mov %edi, %ecx\nxor %eax, %eax\nloop 1f\nmov $6, %eax\nret\n1: mov $7, %eax\nret");
int main(void) { printf("%d %d %d %d %d %d %d\n", f(1), f(-1), g(1), h(0), h(1), i(1), i(2)); }
