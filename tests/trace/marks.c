/* Sets markers: between those of a thread it calls as many functions as they say. Says nothing of tracing. */
#include "../../include/mcount/mark.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NI __attribute__((noinline))

NI long step(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

NI long phase(int number)
{
    char text[32];
    long sum = 0;
    snprintf(text, sizeof text, "%d steps", number);
    mcount_mark(text);
    for (int i = 0; i < number; i++)
        sum = step(sum);
    return sum;
}

static void *run(void *number)
{
    return (void *)(phase(*(int *)number) + phase(2));
}

static void handler(int signal)
{
    (void)signal;
    mcount_mark("in a handler");
}

int main(int count, char **arguments)
{
    pthread_t thread;
    int steps = 7;
    void *result;
    if (count > 1 && !strcmp(arguments[1], "served")) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    mcount_mark("begin");
    pthread_create(&thread, 0, run, &steps);
    pthread_join(thread, &result);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    mcount_mark("0123456789012345678901234567890123456789012345678901234567890123456789");
    mcount_mark("line 1\nline 2");
    mcount_mark("");
    printf("%ld\n", phase(3) + (long)result);
    mcount_mark("end");
    return 0;
}
