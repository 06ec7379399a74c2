// Instructions relative to where they are, each as the first of a function.
//# flags: -march=armv8.8-a
//# planned: by_adr
//# planned: by_adrp
//# planned: by_word
//# planned: by_long
//# planned: by_signed
//# planned: by_float
//# planned: by_double
//# planned: by_vector
//# planned: by_prefetch
//# planned: by_b
//# planned: by_cond
//# planned: by_cbz
//# planned: by_cbnz
//# planned: by_tbz
//# planned: by_tbnz
//# planned: only
#include "function.h"
int word = 3;
asm(".text\n.p2align 4\nliteral: .word 0x80000007, 0x40490fdb, 0x54442d18, 0x400921fb\n");
long by_adr(void), by_adrp(void), by_word(void), by_long(void), by_signed(void), by_b(long);
long by_cond(long), by_cbz(long), by_cbnz(long), by_tbz(long), by_tbnz(long), by_prefetch(void);
float by_float(void);
double by_double(void), by_vector(void);
void only(void);
FUNCTION(by_adr, "adr x0, literal\nldr w0, [x0]\nret");
FUNCTION(by_adrp, "adrp x0, word\nldr w0, [x0, :lo12:word]\nret");
FUNCTION(by_word, "ldr w0, literal\nret");
FUNCTION(by_long, "ldr x0, literal\nret");
FUNCTION(by_signed, "ldrsw x0, literal\nret");
FUNCTION(by_float, "ldr s0, literal + 4\nret");
FUNCTION(by_double, "ldr d0, literal + 8\nret");
FUNCTION(by_vector, "ldr q1, literal\nmov d0, v1.d[1]\nret");
FUNCTION(by_prefetch, "prfm pldl1keep, literal\nmov w0, #9\nret");
FUNCTION(by_b, "b 1f\nadd x0, x0, #1\n1: add x0, x0, #2\nret");
FUNCTION(by_cond, "b.ne 1f\nadd x0, x0, #1\nret\n1: add x0, x0, #2\nret");
FUNCTION(by_cbz, "cbz x0, 1f\nadd x0, x0, #1\nret\n1: add x0, x0, #2\nret");
FUNCTION(by_cbnz, "cbnz w0, 1f\nadd x0, x0, #1\nret\n1: add x0, x0, #2\nret");
FUNCTION(by_tbz, "tbz w0, #1, 1f\nadd x0, x0, #1\nret\n1: add x0, x0, #2\nret");
FUNCTION(by_tbnz, "tbnz x0, #33, 1f\nadd x0, x0, #1\nret\n1: add x0, x0, #2\nret");
FUNCTION(only, "ret");
static long flagged(long value) {
  long found;
  asm volatile("cmp %1, #5\nmov x0, %1\nbl by_cond\nmov %0, x0" : "=r"(found) : "r"(value) : "x0", "x30", "cc");
  return found;
}
int main(void) {
  printf("%ld %ld %ld %lx %ld\n", by_adr(), by_adrp(), by_word(), by_long(), by_signed());
  printf("%f %f %f %ld %ld\n", by_float(), by_double(), by_vector(), by_prefetch(), by_b(1));
  printf("%ld %ld %ld %ld\n", by_cbz(0), by_cbz(1L << 32), by_cbnz(0), by_cbnz(1L << 32));
  printf("%ld %ld %ld %ld\n", by_tbz(0), by_tbz(2), by_tbnz(0), by_tbnz(1L << 33));
  printf("%ld %ld\n", flagged(5), flagged(6));
  only();
}
