/* Ten thousand functions, some of which have a hook across the border of two pages. Each is armed and called, alone and together. */
#include "check.h"

enum { FUNCTIONS = 10000, PAGE = 4096 };
extern uint64_t (*const table[])(uint64_t);

static volatile unsigned long entries, exits;

BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    call->data = LONG_ARGUMENT(call);
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    unsigned long n = strtoul(call->function->name + 1, 0, 10);
    CHECK(LONG_RESULT(call) == call->data * (2 * n + 1) + n);
}
BARE static void call_all(unsigned long seen)
{
    entries = exits = 0;
    for (uint64_t n = 0; n < FUNCTIONS; n++)
        CHECK(table[n](n * 1234567890123) == n * 1234567890123 * (2 * n + 1) + n);
    CHECK(entries == seen && exits == seen);
}
/* edges FIRST END: how far before and behind an entry its hook is changed. */
BARE int main(int argc, char **argv)
{
    CHECK(argc > 2);
    long first = atol(argv[1]), end = atol(argv[2]);
    unsigned odd = 0, across = 0;
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    for (unsigned n = 0; n < FUNCTIONS; n++) {
        /* On Arm, a bit of the address says which instruction set it is. */
        uintptr_t entry = (uintptr_t)table[n] & ~(uintptr_t)1;
        odd += entry % 4 != 0;
        if ((entry + (uintptr_t)first) / PAGE == (entry + (uintptr_t)end - 1) / PAGE)
            continue;
        across++;
        CHECK(mcount_arm_address(tracer, table[n]) == 1);
        call_all(1);
        CHECK(mcount_disarm(tracer, 0) == 1);
        call_all(0);
    }
    printf("%u at odd halfwords, %u across two pages\n", odd, across);
    CHECK(odd > 0 && across > 0);
    CHECK(mcount_arm(tracer, "f[0-9]*") == FUNCTIONS);
    call_all(FUNCTIONS);
    CHECK(mcount_disarm(tracer, 0) == FUNCTIONS);
    call_all(0);
    CHECK(mcount_close(tracer) == 0);
    puts("ok");
    return 0;
}
