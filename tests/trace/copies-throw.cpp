/* Coroutines that share one stack, as in copies.c, with exceptions that pass through frames of which another has had the slot, and with
 * backtraces there. */
#include "hits.h"
#include <csetjmp>
#include <cstdint>
#include <unwind.h>
TRUTH()

struct coroutine {
    jmp_buf own;
    char *low, *copy;
    size_t size;
    bool is_started, is_done;
    long sum;
};
static coroutine all[6], *now;
static jmp_buf scheduler;
static char *base;

QUIET static void keep()
{
    now->low = static_cast<char *>(__builtin_frame_address(0));
    now->size = static_cast<size_t>(base - now->low);
    now->copy = static_cast<char *>(realloc(now->copy, now->size));
    memcpy(now->copy, now->low, now->size);
}
QUIET static void put_back()
{
    volatile char room[1024];
    room[0] = 0;
    if (const_cast<char *>(room) > now->low - 1024) {
        put_back();
    } else {
        memcpy(now->low, now->copy, now->size);
        longjmp(now->own, 1);
    }
    room[1] = 0;
}
NI static void yield()
{
    HIT();
    if (!setjmp(now->own)) {
        keep();
        longjmp(scheduler, 1);
    }
}
int main();
QUIET static _Unwind_Reason_Code visit(_Unwind_Context *context, void *found)
{
#ifdef __arm__
    uintptr_t function = _Unwind_GetRegionStart(context);
#else
    int before = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before);
    void *start = _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(address - !before));
    uintptr_t function = reinterpret_cast<uintptr_t>(start);
#endif
    // On AArch64, gcc begins the unwind information behind the NOPs.
    if (function - (reinterpret_cast<uintptr_t>(main) & ~uintptr_t(1)) < 32)
        *static_cast<bool *>(found) = true;
    return _URC_NO_REASON;
}
NI static long look(long x)
{
    HIT();
    bool found = false;
    _Unwind_Backtrace(visit, &found);
    if (!found) {
        fprintf(stderr, "a backtrace ends before main\n");
        abort();
    }
    return x + 1;
}
struct guard {
    long &sum;
    NI ~guard()
    {
        HIT();
        sum += 7;
    }
};
NI static long deep(int i, int n)
{
    HIT();
    long sum = look(n);
    if (n % (i % 3 + 2) == 0)
        yield();
    {
        guard guard{sum};
        if (n == 0)
            throw i;
        int caught = -1;
        try {
            sum += deep(i, n - 1);
        } catch (int thrown) {
            caught = thrown + 1;
            sum += thrown + look(n);
        }
        // Not while it's being handled: a thread's exceptions are in a list.
        yield();
        if (caught >= 0 && n % 3)
            throw caught;
    }
    if (n % (i % 4 + 2) == 1)
        yield();
    return sum + look(n);
}
NI static void begin()
{
    HIT();
    // No argument: it might be above the frame.
    int i = static_cast<int>(now - all);
    base = static_cast<char *>(FRAME_END());
    for (int round = 0; round < 3; round++) {
        try {
            now->sum += deep(i, 13 - i % 4 - round);
        } catch (int thrown) {
            all[i].sum += thrown;
        }
    }
    all[i].is_done = true;
    longjmp(scheduler, 1);
}
NI static void schedule()
{
    HIT();
    static int i, left;
    do {
        for (i = left = 0; i < 6; i++) {
            now = &all[i];
            if (!now->is_done && !setjmp(scheduler)) {
                if (now->is_started)
                    put_back();
                now->is_started = true;
                begin();
            }
            left += !now->is_done;
        }
    } while (left);
}
int main()
{
    schedule();
    for (coroutine &one : all)
        printf("%ld\n", one.sum);
    return 0;
}
