// The unlikely part of a function, by its name.
//# refuse: f.cold part
//# planned: f
#include "function.h"
int f(int);
FUNCTION(f, "test %edi, %edi\njs f.cold\nmov $1, %eax\nret");
NAMED(f_cold, "f.cold", "mov $2, %eax\nret");
int main(void) { printf("%d %d\n", f(1), f(-1)); }
