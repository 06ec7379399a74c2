/* Calls traced functions N times as often as its argument says: flat ones, and ones that call themselves nine times. benches/live/steps.c
 * counts the instructions between the two signals. */
#include <mcount/live.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long flat(long number) {
    __asm__ volatile("" : "+r"(number));
    return number + 1;
}

__attribute__((noinline)) long deep(long number) {
    if (number <= 0)
        return 0;
    long below = deep(number - 1);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

int main(int count, char **arguments) {
    long times = count > 2 ? atol(arguments[1]) : 0, sum = 0;
    mcount_tracer *tracer = times ? mcount_trace(arguments[2]) : NULL;
    if (!tracer || mcount_arm(tracer, "flat") < 0 || mcount_arm(tracer, "deep") < 0) {
        fprintf(stderr, "stepped TIMES TRACE: %s\n", mcount_error());
        return 1;
    }
    /* The first calls of a thread map memory. */
    for (int i = 0; i < 100; i++)
        sum += flat(1) + deep(9);
    raise(SIGUSR1);
    for (long i = 0; i < times; i++)
        sum = flat(sum);
    for (long i = 0; i < times / 10; i++)
        sum += deep(9);
    raise(SIGUSR1);
    printf("%ld\n", sum);
    return mcount_close(tracer) != 0;
}
