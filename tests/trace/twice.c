/* A function that returns more than once, as greenlet's slp_switch does when a greenlet starts: its frame is copied, it returns, the
 * copy comes back, and it returns again. Its hook stays idle, so it doesn't count itself. */
#include "hits.h"
#include <setjmp.h>
TRUTH()

static jmp_buf inside;
static char *low, *copy;
static size_t size;
static int rounds;

/* Keeps the stack from here up to the end of the frame of slp_switch. */
QUIET static void keep(char *end)
{
    low = __builtin_frame_address(0);
    size = (size_t)(end - low);
    copy = realloc(copy, size);
    memcpy(copy, low, size);
}
/* Puts it back, from a frame below, and goes on in it. */
QUIET static void put_back(void)
{
    volatile char room[1024];
    room[0] = 0;
    if ((char *)room > low - 1024) {
        put_back();
    } else {
        memcpy(low, copy, size);
        longjmp(inside, 1);
    }
    room[1] = 0;
}
NI int slp_switch(void)
{
    if (setjmp(inside))
        return 1;
    keep(FRAME_END());
    return 0;
}
NI static long leaf(long x)
{
    HIT();
    return x * 3 + 1;
}
NI static long start(void)
{
    static long sum;
    HIT();
    if (slp_switch())
        rounds++;
    sum += leaf(rounds);
    if (rounds < 5)
        put_back();
    return sum;
}
int main(void)
{
    printf("%ld\n", start());
    return rounds != 5;
}
