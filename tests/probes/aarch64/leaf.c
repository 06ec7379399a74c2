// The same with the signature in functions that call nobody.
//# flags: -O2 -mbranch-protection=pac-ret+leaf
//# planned: f
//# planned: g
#include "function.h"
__attribute__((noinline)) int g(int n) { return n * 3; }
__attribute__((noinline)) int f(int n) { return g(n) + 1; }
int main(void) { printf("%d %d\n", f(1), g(2)); }
