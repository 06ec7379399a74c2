// Return addresses with a signature: the instruction that makes it stays, as it's a landing pad. In pages that are guarded, an indirect
// call has to end at one.
//# flags: -O2 -mbranch-protection=standard
//# planned: f
//# planned: g
//# planned: h
//# refuse: skipped branch
//# force: skipped 4
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include "function.h"
__attribute__((noinline)) int g(int n) { return n * 3; }
__attribute__((noinline)) int f(int n) { printf("%d\n", n); return n + 1; }
int h(int), skipped(int);
FUNCTION(h, "pacibsp\nstp x29, x30, [sp, #-16]!\nbl g\nldp x29, x30, [sp], #16\nautibsp\nret");
FUNCTION(skipped, "paciasp\nadd w0, w0, #1\ncbz w0, 1f\nautiasp\n1: ret");
int into(int);
FUNCTION(into, "bti c\nmov w0, #-1\nb skipped + 4");
int (*volatile functions[])(int) = {f, g, h};
// PROT_BTI, for the pages of these functions.
static void guard(int guarded) {
  uintptr_t page = sysconf(_SC_PAGESIZE), start = (uintptr_t)g & -page;
  if (mprotect((void *)start, ((uintptr_t)into - start | (page - 1)) + 1, PROT_READ | PROT_EXEC | (guarded ? 0x10 : 0)))
    printf("no guard\n");
}
int main(void) {
  guard(1);
  for (int i = 0; i < 3; i++) printf("%d\n", functions[i](i));
  printf("%d\n", skipped(5));
  printf("%d\n", into(0));
  guard(0);
}
