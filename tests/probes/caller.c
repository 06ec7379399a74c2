// A function that looks at its return address, and one that does so with a frame.
//# refuse: f uses-return-address
//# refuse: g uses-return-address
//# force: f 5
#include "function.h"
__attribute__((noinline)) void *f(void) { return __builtin_return_address(0); }
__attribute__((noinline, optimize("no-omit-frame-pointer"))) void *g(void) {
  volatile char room[20];
  room[0] = 1;
  return __builtin_return_address(0) + room[0];
}
extern char after_f[], after_g[];
#define CALL(f, value) asm volatile("call " #f "\n.globl after_" #f "\nafter_" #f ":" : "=a"(value) : : "rcx", "rdx", "rsi", "rdi", "memory")
int main(void) {
  char *f_at, *g_at;
  CALL(f, f_at);
  CALL(g, g_at);
  printf("%d %d\n", f_at == after_f, g_at == after_g + 1);
}
