// The kernel sees where a system call is made.
//# refuse: f instruction
#include "function.h"
int f(int);
FUNCTION(f, "push $39\n.cfi_def_cfa_offset 16\npop %rax\n.cfi_def_cfa_offset 8\nsyscall\nret");
int main(void) { printf("%d\n", f(1) > 0); }
