// Another module can find a symbol inside the first bytes.
//# flags: -rdynamic
//# refuse: f label
//# force: f 5
#define _GNU_SOURCE
#include "function.h"
#include <dlfcn.h>
int f(int);
FUNCTION(f, "xor %eax, %eax\n.globl f_inside\nf_inside: add $7, %eax\nadd %edi, %eax\nret");
int main(void) {
  int (*inside)(int) = dlsym(RTLD_DEFAULT, "f_inside");
  int value;
  asm volatile("mov $100, %%eax\ncall *%1" : "=&a"(value) : "r"(inside), "D"(1));
  printf("%d %d\n", f(1), value);
}
