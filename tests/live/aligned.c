/* A function whose prologue aligns the stack, so that only the frame pointer leads to its caller. Calls are nested, and each return
 * is seen once. */
#include "check.h"

static unsigned long entries, exits, exits_at_the_end;

NI long aligned(long n)
{
    _Alignas(256) volatile char room[256];
    /* The stack pointer moves by itself as well. */
    volatile char more[n + 1];
    room[n] = more[n] = (char)n;
    CHECK((uintptr_t)room % 256 == 0);
    exits_at_the_end = exits;
    return n ? aligned(n - 1) + room[n] + more[n] : 0;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    call->data = call->stack;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    /* The innermost one comes first. */
    unsigned long n = exits++ % 21;
    CHECK(RESULT(call) == n * (n + 1));
    CHECK(call->data == call->stack && call->end == MCOUNT_RETURN);
}
BARE int main(void)
{
    CHECK(aligned(20) == 420);
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    CHECK(mcount_arm(tracer, "aligned") == 1);
    for (int i = 1; i <= 10; i++) {
        CHECK(aligned(20) == 420);
        CHECK(entries == 21 * (unsigned long)i && exits == entries);
        CHECK(exits_at_the_end == entries - 21);
    }
    CHECK(mcount_close(tracer) == 0);
    CHECK(aligned(20) == 420);
    puts("ok");
    return 0;
}
