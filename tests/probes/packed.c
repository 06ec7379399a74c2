// A word leads into the first bytes, and its relocation is packed (RELR).
//# flags: -Wl,-z,pack-relative-relocs
//# refuse: f pointer
//# force: f 5
//# planned: g
#include "function.h"
int f(int), g(int);
asm(".data\n.p2align 3\ntable: .quad f+2");
FUNCTION(f, "xor %eax, %eax\nadd $7, %eax\nadd %edi, %eax\nret");
FUNCTION(g, "mov $100, %eax\njmp *table(%rip)");
int main(void) { printf("%d %d\n", f(1), g(1)); }
