/* Coroutines that share one stack, as greenlet's do: what one has on it is copied away when another runs, and copied back
 * later. They are in recursions of different depths and frames of different sizes, so that their slots collide.
 * Arguments: how many there are, how deep they are, and how many begin anew, every other one: what it had on the stack never comes back. */
#include "hits.h"
#include <alloca.h>
#include <setjmp.h>
TRUTH()

enum { MOST = 4096 };
static struct coroutine {
    jmp_buf own;
    char *low, *copy;
    size_t size;
    int is_started, is_done;
    long sum;
} all[MOST];
static struct coroutine *now;
static jmp_buf scheduler;
static char *base;
static int count = 4, depth = 24, anew;

/* Keeps the stack from here up to where the coroutine began. */
QUIET static void keep(void)
{
    now->low = __builtin_frame_address(0);
    now->size = (size_t)(base - now->low);
    now->copy = realloc(now->copy, now->size);
    memcpy(now->copy, now->low, now->size);
}
/* Puts it back, from a frame below. */
QUIET static void put_back(void)
{
    volatile char room[1024];
    room[0] = 0;
    if ((char *)room > now->low - 1024) {
        put_back();
    } else {
        memcpy(now->low, now->copy, now->size);
        longjmp(now->own, 1);
    }
    room[1] = 0;
}
NI static void yield(void)
{
    HIT();
    if (!setjmp(now->own)) {
        keep();
        longjmp(scheduler, 1);
    }
}
NI static long leaf(long x)
{
    HIT();
    return x * 3 + 1;
}
NI static long other(int i, int n);
NI static long deep(int i, int n)
{
    HIT();
    long sum = leaf(n + i);
    if (n % (i % 5 + 2) == 0)
        yield();
    if (n)
        sum += n % 3 ? deep(i, n - 1) : other(i, n - 1);
    sum += leaf(sum & 7);
    if (n % (i % 4 + 3) == 1)
        yield();
    return sum + n;
}
NI static long other(int i, int n)
{
    HIT();
    volatile char *room = alloca(16 * (size_t)(i % 3 + 1));
    room[0] = (char)i;
    long sum = n ? deep(i, n - 1) : 0;
    if (n % 2)
        yield();
    return sum + room[0] + leaf(n);
}
/* Comes back by the scheduler only: whoever called this is elsewhere now. */
NI static void begin(void)
{
    HIT();
    /* No argument: it might be above the frame. */
    int i = (int)(now - all);
    base = FRAME_END();
    for (int round = 0; round < 3; round++)
        all[i].sum += deep(i, depth - i % 4 - round);
    all[i].is_done = 1;
    longjmp(scheduler, 1);
}
NI static void schedule(void)
{
    HIT();
    static int i, left;
    do {
        for (i = left = 0; i < count; i++) {
            now = &all[i];
            if (!now->is_done && !setjmp(scheduler)) {
                if (now->is_started && !(i % 2 && anew > 0))
                    put_back();
                anew -= now->is_started;
                now->is_started = 1;
                begin();
            }
            left += !now->is_done;
        }
    } while (left);
}
int main(int argc, char **argv)
{
    if (argc > 1)
        count = atoi(argv[1]);
    if (argc > 2)
        depth = atoi(argv[2]);
    if (argc > 3)
        anew = atoi(argv[3]);
    schedule();
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum = sum * 31 + all[i].sum;
    printf("%ld\n", sum);
    return 0;
}
