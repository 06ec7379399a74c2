// Functions that are left out by their names, and such that belong to the system.
//# refuse: setjmp left-out
//# refuse: _start no-return-address
//# refuse: f no-bounds
//# refuse: choose resolver
//# refuse: start_cold.cold part
#include "function.h"
int f(int), setjmp(void *), ours(void);
FUNCTION(setjmp, "mov w0, #0\nret");
asm(".text\n.globl f\n.type f,%function\nf: mov w0, #5\nret\n");
asm(".text\n.globl start_cold.cold\n.type start_cold.cold,%function\nstart_cold.cold: mov w0, #5\nret\n.size start_cold.cold,.-start_cold.cold\n");
static int one(void) { return 1; }
void *choose(void) { return one; }
int ours(void) __attribute__((ifunc("choose")));
int main(void) { printf("%d %d %d\n", f(1), setjmp(0), ours()); }
