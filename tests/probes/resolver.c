// The dynamic linker calls the resolver of an indirect function.
//# refuse: resolve resolver
//# planned: f
#include "function.h"
int f(int);
FUNCTION(f, "mov $6, %eax\nret");
static int (*resolve(void))(int) { return f; }
int chosen(int) __attribute__((ifunc("resolve")));
int main(void) { printf("%d\n", chosen(1)); }
