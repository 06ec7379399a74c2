// Threads call step(), and count their calls and the time of these by a clock of their own. A line with anything is answered by: the
// time, calls, their time in nanoseconds, that of the shortest, children that didn't end well, and all children. The program ends at the end of its input.
//
// Arguments: threads, microseconds between calls, 1 to make children all the time.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNHOOKED __attribute__((noinline, patchable_function_entry(0, 0)))

struct counter {
    _Alignas(64) volatile unsigned long calls, nanoseconds, shortest;
};

static struct counter counters[128];
static volatile unsigned long failed, children;
static unsigned between;

UNHOOKED static unsigned long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

__attribute__((noinline)) static void inner(unsigned turns) {
    for (volatile unsigned turn = 0; turn < turns; turn++) {
    }
}

__attribute__((noinline)) static void step(unsigned turns) {
    inner(turns);
    __asm__ volatile("");
}

UNHOOKED static void *work(void *argument) {
    struct counter *counter = argument;
    for (;;) {
        unsigned long start = now();
        step(2000);
        unsigned long took = now() - start;
        counter->nanoseconds += took;
        if (took < counter->shortest || !counter->shortest)
            counter->shortest = took;
        counter->calls++;
        if (between)
            usleep(between);
    }
}

UNHOOKED static void *make_children(void *unused) {
    for (;;) {
        int child = fork(), status;
        if (child == 0) {
            for (int turn = 0; turn < 200; turn++)
                step(200);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            failed++;
        children++;
        usleep(2000);
    }
}

UNHOOKED int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    pthread_t thread;
    between = count > 2 ? atoi(arguments[2]) : 0;
    for (int number = 0; number < threads; number++)
        pthread_create(&thread, NULL, work, &counters[number]);
    if (count > 3)
        pthread_create(&thread, NULL, make_children, NULL);
    puts("ready");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        unsigned long calls = 0, nanoseconds = 0, shortest = ~0ul;
        for (int number = 0; number < threads; number++) {
            calls += counters[number].calls;
            nanoseconds += counters[number].nanoseconds;
            if (counters[number].shortest && counters[number].shortest < shortest)
                shortest = counters[number].shortest;
        }
        printf("%lu %lu %lu %lu %lu %lu\n", now(), calls, nanoseconds, shortest, failed, children);
        fflush(stdout);
    }
    return 0;
}
