// Functions that look at their return address: in its register, and in the frame.
//# refuse: f uses-return-address
//# refuse: g uses-return-address
//# refuse: h uses-return-address
//# refuse: i uses-return-address
//# force: f 4
//# force: g 4
//# force: h 4
//# force: i 4
#include "function.h"
__attribute__((noinline)) void *f(void) { return __builtin_return_address(0); }
__attribute__((noinline)) void *g(void) {
  printf("g\n");
  return __builtin_return_address(0);
}
void *h(void), *i(void);
FUNCTION(h, "sub sp, sp, #32\n.cfi_def_cfa_offset 32\nstp x29, x30, [sp, #16]\n.cfi_offset 29, -16\n.cfi_offset 30, -8\n"
            "add x29, sp, #16\nmov x30, #0\nldr x0, [x29, #8]\nldp x29, x30, [sp, #16]\nadd sp, sp, #32\n.cfi_restore 29\n"
            ".cfi_restore 30\n.cfi_def_cfa_offset 0\nret");
FUNCTION(i, "str x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 30, -16\nmov x30, #0\nldr x0, [sp]\nldr x30, [sp], #16\n"
            ".cfi_restore 30\n.cfi_def_cfa_offset 0\nret");
extern char after_f[], after_g[], after_h[], after_i[];
#define CALL(f, value)                                                         \
  asm volatile("bl " #f "\n.globl after_" #f "\nafter_" #f ": mov %0, x0"      \
               : "=r"(value)                                                   \
               :                                                               \
               : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9",   \
                 "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",       \
                 "x18", "x30", "cc", "memory")
int main(void) {
  char *at[4];
  CALL(f, at[0]);
  CALL(g, at[1]);
  CALL(h, at[2]);
  CALL(i, at[3]);
  printf("%d %d %d %d\n", at[0] == after_f, at[1] == after_g, at[2] == after_h, at[3] == after_i);
}
