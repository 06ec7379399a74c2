// Registers that only a function's own file knows to be free: those that linkers may use are not, and flags.
//# planned: f
#include "function.h"
long f(void);
FUNCTION(f, "add x16, x16, #1\nadc x17, x17, xzr\nret");
int main(void) {
  long found, other;
  asm volatile("mov x16, #7\nmov x17, #9\ncmp x16, #7\nbl f\nmov %0, x16\nmov %1, x17"
               : "=r"(found), "=r"(other) : : "x16", "x17", "x30", "cc");
  printf("%ld %ld\n", found, other);
}
