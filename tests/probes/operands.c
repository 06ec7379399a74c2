// Operands relative to the instruction, in each place that an instruction can have one.
//# planned: f
//# planned: g
//# planned: h
#include "function.h"
int word = 3;
int f(int), h(int);
const int *g(void);
FUNCTION(f, "cmpl $3, word(%rip)\nsete %al\nmovzbl %al, %eax\nret");
FUNCTION(g, "lea word(%rip), %rax\nret");
FUNCTION(h, "addl $0x12345, word(%rip)\nmov word(%rip), %eax\nret");
int main(void) { printf("%d %d %d\n", f(1), *g(), h(1)); }
