// A function that goes to another stack, and returns there.
//# refuse: change uses-return-address
//# force: change 4
//# leave: second
#include "function.h"
void change(void);
long other[8192] __attribute__((aligned(16)));
long *stack = other + 8180;
FUNCTION(change, "stp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\n"
                 "stp x19, x20, [sp, #-16]!\n.cfi_def_cfa_offset 32\nstp x21, x22, [sp, #-16]!\n.cfi_def_cfa_offset 48\n"
                 "adrp x0, stack\nldr x1, [x0, :lo12:stack]\nmov x2, sp\nstr x2, [x0, :lo12:stack]\nmov sp, x1\n"
                 "ldp x21, x22, [sp], #16\n.cfi_def_cfa_offset 32\nldp x19, x20, [sp], #16\n.cfi_def_cfa_offset 16\n"
                 "ldp x29, x30, [sp], #16\n.cfi_restore 29\n.cfi_restore 30\n.cfi_def_cfa_offset 0\nret");
static __attribute__((noinline)) void second(void) { for (int i = 0;; i++) { printf("second %d\n", i); change(); } }
int main(void) {
  other[8185] = (long)second;
  for (int i = 0; i < 3; i++) { printf("first %d\n", i); change(); }
}
