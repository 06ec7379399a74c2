// A call in the middle of the first bytes: its frame would return to the second half of the jump.
//# refuse: f call
#include "function.h"
int f(int (*)(void));
static int one(void) { return 1; }
FUNCTION(f, "call *%rdi\nadd $1, %eax\nret");
int main(void) { printf("%d\n", f(one)); }
