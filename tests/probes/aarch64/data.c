// Data between a function's instructions, and words that are no instructions.
//# refuse: f not-decoded
//# refuse: g not-decoded
#include "function.h"
int f(void), g(void);
FUNCTION(f, "ldr w0, 1f\nret\n1: .word 0x12345678");
FUNCTION(g, "mov w0, #5\nret\n.inst 0x02000000");
int main(void) { printf("%d %d\n", f(), g()); }
