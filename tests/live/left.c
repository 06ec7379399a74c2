/* A signal arrives while a handler runs, and its handler jumps out of both. Calls are shown again afterwards; meanwhile,
 * what the signal handler calls isn't, on whichever stack it runs. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile int entries, is_leaving, stay;

NI long called(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
NI long in_signal(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 2;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    entries++;
    if (is_leaving) {
        is_leaving = 0;
        raise(SIGUSR1);
    }
    return MCOUNT_CONTINUE;
}
BARE static void on_signal(int signal)
{
    (void)signal;
    CHECK(in_signal(1) == 3);
    if (!stay)
        siglongjmp(back, 1);
}
/* The handler of the signal runs on a stack that's above the usual one, or below, or on the usual one. */
BARE static void leave(void *stack)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = 64 << 10, .ss_flags = stack ? 0 : SS_DISABLE};
    CHECK(sigaltstack(&alternate, 0) == 0);
    for (int i = 0; i < 20; i++) {
        for (stay = 0; stay < 2; stay++) {
            uint64_t missed = mcount_missed();
            entries = 0;
            is_leaving = 1;
            if (sigsetjmp(back, 1) == 0)
                CHECK(called(1) == 2 && stay);
            CHECK(entries == 1 && mcount_missed() == missed + 1);
            CHECK(called(1) == 2 && entries == 2);
            CHECK(in_signal(1) == 3 && entries == 3);
        }
    }
}
BARE int main(void)
{
    char above[64 << 10];
    static char below[64 << 10];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    mcount_tracer *tracer = mcount_handlers(on_entry, 0, 0, 0);
    CHECK(mcount_arm(tracer, "called") == 1 && mcount_arm(tracer, "in_signal") == 1);
    leave(0);
    leave(below);
    leave(above);
    CHECK(mcount_close(tracer) == 0);
    puts("ok");
    return 0;
}
