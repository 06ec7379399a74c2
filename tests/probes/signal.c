// A signal handler returns to code that makes a system call.
//# refuse: restore signal-return
//# force: restore 7
#include "function.h"
#include <signal.h>
#include <unistd.h>
#include <sys/syscall.h>
void restore(void);
asm(".text\n.p2align 4\n.globl restore\n.type restore,@function\nrestore:\n.cfi_startproc\n.cfi_signal_frame\n"
    "mov $15, %rax\nsyscall\n.cfi_endproc\n.size restore,.-restore\n");
static volatile int seen;
static void handler(int number) { seen = number; }
struct action { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; };
int main(void) {
  struct action action = {handler, 0x04000000, restore, 0};
  syscall(SYS_rt_sigaction, SIGUSR1, &action, 0, 8);
  raise(SIGUSR1);
  printf("%d\n", seen);
}
