// Calls at the end of the first bytes: by a distance, by a register, and by a word.
//# flags: -no-pie
//# planned: f
//# planned: g
//# planned: h
//# planned: i
#include "function.h"
int f(int), g(int (*)(void)), h(int), i(void *);
int one(void) { return 1; }
int (*word)(void) = one;
FUNCTION(f, "call one\nadd $1, %eax\nret");
FUNCTION(g, "sub $8, %rsp\n.cfi_def_cfa_offset 16\ncall *%rdi\nadd $8, %rsp\n.cfi_def_cfa_offset 8\nret");
FUNCTION(h, "sub $8, %rsp\n.cfi_def_cfa_offset 16\ncall *word(%rip)\nadd $8, %rsp\n.cfi_def_cfa_offset 8\nret");
FUNCTION(i, "push %rbx\n.cfi_def_cfa_offset 16\nmov %rdi, %rbx\ncall *(%rbx)\npop %rbx\n.cfi_def_cfa_offset 8\nret");
// The callee sees where it returns to.
int where(void);
extern char after[];
FUNCTION(where, "call 1f\n.globl after\nafter: ret\n1: mov (%rsp), %rax\nlea after(%rip), %rcx\nsub %rcx, %rax\nret");
int main(void) { printf("%d %d %d %d %d\n", f(1), g(one), h(1), i(&word), where()); }
