// Another function jumps into the first bytes: they share their end.
//# refuse: f branch
//# force: f 5
//# planned: g
#include "function.h"
int f(int), g(int);
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\njmp f+2");
int main(void) { printf("%d %d\n", f(1), g(1)); }
