// Short functions with padding behind them.
//# planned: f
//# planned: g
//# planned: h
#include "function.h"
int f(int), g(int), h(int);
FUNCTION(f, "mov %edi, %eax\nret");
FUNCTION(g, "jmp f");
FUNCTION(h, "test %edi, %edi\njmp f");
FUNCTION(last, "ret");
int main(void) { printf("%d %d %d\n", f(1), g(2), h(3)); }
