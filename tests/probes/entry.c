// A function jumps to this one when its own frame is already there.
//# refuse: g not-at-entry
//# force: g 5
//# planned: f
#include "function.h"
int f(int);
FUNCTION(f, "push %rdi\n.cfi_def_cfa_offset 16\nmov $5, %eax\njmp g");
FUNCTION(g, ".cfi_def_cfa_offset 16\nmov $5, %eax\npop %rdi\n.cfi_def_cfa_offset 8\nadd %edi, %eax\nret");
int main(void) { printf("%d\n", f(1)); }
