// A function that returns twice, and one by which it does.
//# refuse: keep uses-return-address
//# refuse: jump uses-return-address
//# force: keep 11
//# leave: deeper
#include "function.h"
long kept[3];
int keep(void) __attribute__((returns_twice));
_Noreturn void jump(void);
FUNCTION(keep, "mov (%rsp), %rax\nmov %rax, kept(%rip)\nmov %rsp, kept+8(%rip)\nmov %rbp, kept+16(%rip)\nxor %eax, %eax\nret");
FUNCTION(jump, "mov kept+8(%rip), %rsp\nmov kept+16(%rip), %rbp\nmov kept(%rip), %rax\nmov %rax, (%rsp)\nmov $1, %eax\nret");
static void __attribute__((noinline)) deeper(volatile int n) { if (n) deeper(n - 1); else jump(); }
int main(void) {
  volatile int rounds = 0;
  if (keep()) rounds++; else deeper(3);
  printf("%d\n", rounds);
}
