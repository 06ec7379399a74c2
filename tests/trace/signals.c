/* Handlers on a stack of their own, nested, left by longjmp, and at a fault. */
#include "hits.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
TRUTH()
static char stack[64 << 10];
static sigjmp_buf back;
static volatile int handled;
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static void second(int s) {
    HIT();
    handled += leaf(s);
}
NI static void first(int s) {
    HIT();
    handled += leaf(s);
    raise(SIGUSR2);
    handled += leaf(s);
}
NI static void fault(int s) {
    HIT();
    leaf(s);
    siglongjmp(back, 1);
}
/* Runs out of stack; what handles that has another one. */
NI static int overflow(int n) {
    HIT();
    volatile char pad[4096];
    pad[n & 4095] = n;
    int r = n == 1 << 30 ? 0 : overflow(n + 1);
    return r + pad[n & 4095];
}
int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    struct sigaction action = {.sa_handler = first, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = second;
    sigaction(SIGUSR2, &action, 0);
    action.sa_handler = fault;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    volatile int faults = 0;
    for (volatile int i = 0; i < 20; i++)
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)16 = 1;
        else
            faults++;
    if (sigsetjmp(back, 1) == 0)
        overflow(0);
    else
        faults++;
    printf("%d %d %d\n", handled, faults, leaf(1));
    /* How deep it got depends on how much stack was left. */
    for (int i = 0; i < 64 && hits_[i].name; i++)
        if (!strcmp(hits_[i].name, "overflow") && hits_[i].count < 100)
            return 1;
    return 0;
}
