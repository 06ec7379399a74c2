/* Leaf functions keep what they compute below the stack pointer, where handlers of signals write as soon as 128
 * bytes are left. So does a tracer that is interrupted. */
#include "hits.h"
#include <signal.h>
#include <sys/time.h>
TRUTH()
static volatile sig_atomic_t handled;
static volatile int wrong;
NI static long leaf(long n) {
    HIT();
    volatile long kept[12];
    for (int i = 0; i < 12; i++)
        kept[i] = n * i;
    long sum = 0;
    for (int i = 0; i < 12; i++)
        sum += kept[i];
    return sum;
}
NI static long fib(long n) {
    HIT();
    long r = n < 2 ? n : fib(n - 1) + fib(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static void handler(int s) {
    HIT();
    (void)s;
    /* Fills what is below the red zone of whoever was interrupted. */
    volatile char pad[2048];
    memset((char *)pad, 0xaa, sizeof pad);
    if (fib(5) != 5 || leaf(3) != 198)
        wrong++;
    handled++;
}
int main(void) {
    struct itimerval often = {{0, 100}, {0, 100}};
    signal(SIGPROF, handler);
    setitimer(ITIMER_PROF, &often, 0);
    for (long n = 0; handled < 300; n++)
        for (long i = 0; i < 20000; i++)
            if (leaf(i + n) != 66 * (i + n))
                wrong++;
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_PROF, &often, 0);
    printf("wrong %d\n", wrong);
    return 0;
}
