// The function catches exceptions of its first instructions, which a signal handler throws.
//# plain
//# flags: -O2 -fnon-call-exceptions
//# refuse: f call-site
//# force: f 6
#include "function.h"
#include <signal.h>
extern "C" __attribute__((noinline)) int f(volatile int *at) {
  try {
    return *at;
  } catch (...) {
    return 42;
  }
}
static void handler(int) { throw 1; }
int main() {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  int word = 5;
  printf("%d %d\n", f(&word), f(nullptr));
}
