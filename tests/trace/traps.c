/* Uses what a tracer uses as well: breakpoint instructions, SIGTRAP, queued signals with values. */
#include "hits.h"
#include <errno.h>
#include <signal.h>
#include <time.h>
TRUTH()
static volatile int traps, sum;
NI static void on_trap(int s) {
    HIT();
    traps += s == SIGTRAP;
}
NI static void on_value(int s, siginfo_t *info, void *context) {
    HIT();
    (void)s;
    (void)context;
    sum += info->si_value.sival_int * (info->si_pid == getpid());
}
NI static int leaf(int n) {
    HIT();
    __asm__ volatile("int3");
    return n;
}
int main(void) {
    signal(SIGTRAP, on_trap);
    struct sigaction action = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 3, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    for (int i = 0; i < 100; i++)
        leaf(i);
    raise(SIGTRAP);
    for (int i = 0; i < 10; i++) {
        sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i});
        sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 100});
    }
    /* One that is waited for. */
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 5});
    int found = sigwaitinfo(&set, &info);
    printf("%d %d %d %d\n", traps, sum, found, info.si_value.sival_int);
    /* Nothing comes, and nothing interrupts it. */
    struct timespec time = {0, 20000000};
    printf("%d %d\n", sigtimedwait(&set, &info, &time), errno == EAGAIN);
    return 0;
}
