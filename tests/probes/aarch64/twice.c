// A function that returns twice, and one by which it does.
//# refuse: keep uses-return-address
//# refuse: jump uses-return-address
//# force: keep 4
//# leave: deeper
#include "function.h"
long kept[3];
int keep(void) __attribute__((returns_twice));
_Noreturn void jump(void);
FUNCTION(keep, "adrp x0, kept\nadd x0, x0, :lo12:kept\nstp x29, x30, [x0]\nmov x1, sp\nstr x1, [x0, #16]\nmov w0, #0\nret");
FUNCTION(jump, "adrp x0, kept\nadd x0, x0, :lo12:kept\nldp x29, x30, [x0]\nldr x1, [x0, #16]\nmov sp, x1\nmov w0, #1\nret");
static void __attribute__((noinline)) deeper(volatile int n) { if (n) deeper(n - 1); else jump(); }
int main(void) {
  volatile int rounds = 0;
  if (keep()) rounds++; else deeper(3);
  printf("%d\n", rounds);
}
