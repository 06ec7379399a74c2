/* Exceptions, and backtraces, pass through functions with hooks. Those that throw and catch have none: on Arm, gcc can't
 * compile functions that have both. */
#include "check.h"
#include <execinfo.h>

enum { MOST = 64, DEPTH = 20 };
static unsigned long entries, exits, unwound;
static void *places[MOST];
static int count;

BARE static int bottom(int is_thrown)
{
    count = backtrace(places, MOST);
    if (is_thrown)
        throw is_thrown;
    return 0;
}
NI static int between(int n, int is_thrown)
{
    int result = n ? between(n - 1, is_thrown) : bottom(is_thrown);
    __asm__ volatile("" : "+r"(result));
    return result + 1;
}
BARE static int on_entry(struct mcount_call *, void *)
{
    entries++;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *)
{
    exits++;
    unwound += call->end == MCOUNT_UNWOUND;
}
/* What it ends with: so many calls, or what was thrown. */
BARE static int calls(int n, int thrown)
{
    try {
        return between(n, thrown);
    } catch (int caught) {
        return -caught;
    }
}
BARE int main()
{
    CHECK(calls(DEPTH, 0) == DEPTH + 1);
    int before = count;
    void *outermost = places[count - 1];
    CHECK(before > DEPTH && before < MOST);
    CHECK(calls(DEPTH, 7) == -7);
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    CHECK(mcount_arm(tracer, "between*") == 1);
    CHECK(calls(DEPTH, 0) == DEPTH + 1);
    CHECK(entries == DEPTH + 1 && exits == entries && unwound == 0);
    /* A stub is a frame of its own. */
    CHECK(count == before + DEPTH + 1);
    CHECK(places[count - 1] == outermost);
    for (int n = 0; n <= DEPTH; n++)
        CHECK(calls(n, n + 1) == -n - 1);
    CHECK(exits == entries && unwound == (DEPTH + 1) * (DEPTH + 2) / 2);
    CHECK(mcount_disarm(tracer, 0) == 1);
    CHECK(calls(DEPTH, 7) == -7 && count == before);
    puts("ok");
    return 0;
}
