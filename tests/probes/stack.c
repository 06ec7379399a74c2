// A function that goes to another stack, and returns there.
//# refuse: change uses-return-address
//# force: change 7
//# leave: second
#include "function.h"
void change(void);
long other[512];
long *sp = other + 500;
FUNCTION(change, "mov sp(%rip), %rax\npush %rbx\npush %rbp\nmov %rsp, sp(%rip)\n"
                 "mov (%rax), %rbp\nmov 8(%rax), %rbx\nlea 16(%rax), %rsp\nret");
static __attribute__((noinline)) void second(void) { for (int i = 0;; i++) { printf("second %d\n", i); change(); } }
int main(void) {
  other[502] = (long)second;
  for (int i = 0; i < 3; i++) { printf("first %d\n", i); change(); }
}
