/* Sets markers in a trace of itself, in two threads, and outside of it. The part that only knows <mcount/mark.h> is in
 * another file (elsewhere.c, if MARKS_ELSEWHERE is defined). */
#ifdef MARKS_ELSEWHERE
#include <mcount/mark.h>
#else
#include <mcount/live.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NI __attribute__((noinline))

#ifdef MARKS_ELSEWHERE
NI void elsewhere(void)
{
    mcount_mark("elsewhere");
}
#else
void elsewhere(void);

NI long step(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

NI long phase(const char *name, int steps)
{
    long sum = 0;
    mcount_mark(name);
    for (int i = 0; i < steps; i++)
        sum = step(sum);
    return sum;
}

static void *run(void *sum)
{
    *(long *)sum = phase("thread", 5);
    return 0;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    long sum = 0;
    mcount_mark("before");
    mcount_tracer *trace = count > 1 ? mcount_trace(arguments[1]) : NULL;
    if (count > 1 && (!trace || mcount_arm(trace, "*") < 0)) {
        fprintf(stderr, "%s\n", mcount_error());
        return 1;
    }
    pthread_create(&thread, 0, run, &sum);
    pthread_join(thread, 0);
    sum += phase("0123456789012345678901234567890123456789012345678901234567890123456789", 2);
    elsewhere();
    if (trace && mcount_close(trace) != 0)
        return 2;
    mcount_mark("behind");
    printf("%ld\n", sum);
    return 0;
}
#endif
