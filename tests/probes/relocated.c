// The dynamic linker changes the first instruction.
//# flags: -Wl,-z,notext
//# refuse: f relocated
//# force: f 10
#include "function.h"
int word = 5;
int f(int);
FUNCTION(f, "movabs $word, %rax\nmov (%rax), %eax\nret");
int main(void) { printf("%d\n", f(1)); }
