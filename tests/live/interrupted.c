/* A signal arrives while a call is being recorded, often in one of the rarer ways, and its handler jumps out of that. The
 * trace ends all the same, and another one can be begun. Then signals come without jumps, on stacks above and below.
 *
 * interrupted TRACE */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

enum { JUMPS = 1000, ROUNDS = 3 };
static sigjmp_buf back;
static volatile int is_inside, jumps, stay;

NI long leaf(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
/* A tail call, which is one of the rarer ways. */
NI long jumper(long n)
{
    __asm__ volatile("" : "+r"(n));
    return leaf(n + 1);
}
BARE static void on_signal(int signal)
{
    (void)signal;
    CHECK(leaf(1) == 2);
    if (is_inside && !stay) {
        is_inside = 0;
        siglongjmp(back, 1);
    }
    jumps++;
}
BARE static void every(long microseconds)
{
    struct itimerval time = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &time, 0) == 0);
}
/* Calls, until so many signals have come. */
BARE static void call(void)
{
    jumps = 0;
    every(200);
    while (jumps < JUMPS) {
        if (sigsetjmp(back, 1) != 0)
            jumps++;
        is_inside = 1;
        for (int i = 0; i < 10000 && jumps < JUMPS; i++)
            CHECK(jumper(i) == i + 2);
        is_inside = 0;
    }
    every(0);
}
BARE static void on_stack(void *stack)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = 64 << 10, .ss_flags = stack ? 0 : SS_DISABLE};
    CHECK(sigaltstack(&alternate, 0) == 0);
    call();
}
BARE int main(int argc, char **argv)
{
    char above[64 << 10];
    static char below[64 << 10];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(argc == 2 && sigaction(SIGALRM, &action, 0) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        mcount_tracer *trace = mcount_trace(argv[1]);
        CHECK(trace && mcount_arm(trace, "leaf") == 1 && mcount_arm(trace, "jumper") == 1);
        for (stay = 0; stay < 2; stay++) {
            on_stack(0);
            on_stack(below);
            on_stack(above);
        }
        CHECK(mcount_close(trace) == 0);
    }
    puts("ok");
    return 0;
}
