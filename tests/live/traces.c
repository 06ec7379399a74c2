/* Starts and ends traces, also while other threads are in traced functions, and says how many calls of which function
 * each must have: lines "trace process function count". A count of 0 means: any number.
 *
 * traces [after-prologue] */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 30 };
static volatile unsigned long fibs, leaves;
static atomic_int stop, running;
static atomic_ulong seen;
static FILE *truth;

NI long fib(long n)
{
    fibs++;
    if (n < 2)
        return n;
    long a = fib(n - 1);
    __asm__ volatile("" : "+r"(a));
    a += fib(n - 2);
    __asm__ volatile("" : "+r"(a));
    return a;
}
NI long leaf(long n)
{
    leaves++;
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
/* Is under way when a trace begins, or ends. */
NI long under_way(void (*act)(void))
{
    act();
    __asm__ volatile("");
    return leaf(1);
}
NI long deep(long n)
{
    long r = n ? deep(n - 1) : 0;
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
BARE static void *run(void *data)
{
    (void)data;
    running++;
    while (!stop)
        CHECK(deep(200) == 201);
    return 0;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    seen++;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    seen++;
}
BARE static void says(const char *trace, const char *function, unsigned long count)
{
    fprintf(truth, "%s %d %s %lu\n", trace, getpid(), function, count);
    fflush(truth);
}
static mcount_tracer *trace;
BARE static void begin(void)
{
    CHECK((trace = mcount_trace("began-under-way")));
    CHECK(mcount_arm(trace, "*") >= 4);
}
BARE static void end(void) { CHECK(mcount_close(trace) == 0); }

BARE static void usual(void)
{
    CHECK(!mcount_trace("."));
    CHECK(!mcount_trace("no-such-folder/trace"));
    CHECK((trace = mcount_trace("usual")));
    CHECK(!mcount_trace("another"));
    CHECK(strstr(mcount_error(), "another trace"));
    fibs = leaves = 0;
    CHECK(fib(5) == 5);
    fibs = 0;
    CHECK(mcount_arm(trace, "fib") == 1);
    CHECK(mcount_arm_address(trace, leaf) == 1);
    CHECK(fib(10) == 55 && leaf(1) == 2);
    CHECK(mcount_disarm(trace, "leaf") == 1);
    CHECK(leaf(1) == 2);
    says("usual", "fib", fibs);
    says("usual", "leaf", 1);
    end();
    CHECK(fib(5) == 5 && leaf(1) == 2);
    CHECK(mcount_arm(mcount_handlers(on_entry, 0, 0, 0), "fib") == 1);
}
BARE static void calls_under_way(void)
{
    under_way(begin);
    says("began-under-way", "leaf", 1);
    end();
    CHECK((trace = mcount_trace("ended-under-way")));
    CHECK(mcount_arm(trace, "*") >= 4);
    under_way(end);
    says("ended-under-way", "under_way", 1);
}
BARE static void with_handlers(int after_prologue)
{
    CHECK((trace = mcount_trace("with-handlers")));
    mcount_tracer *handlers = mcount_handlers(on_entry, on_exit_, 0, MCOUNT_VECTORS);
    CHECK(mcount_arm(trace, "fib") == 1 && mcount_arm(handlers, "fib") == 1 && mcount_arm(handlers, "leaf") == 1);
    fibs = 0;
    seen = 0;
    CHECK(fib(10) == 55 && leaf(1) == 2);
    /* An entry handler from before sees fib as well. */
    CHECK(seen == 3 * fibs + 2);
    CHECK(mcount_close(handlers) == 0);
    if (!after_prologue) {
        CHECK(mcount_replace(leaf, fib, 0) == 0 && mcount_arm(trace, "leaf") == 1);
        CHECK(leaf(3) == 2);
        CHECK(mcount_put_back(leaf) == 0);
        says("with-handlers", "leaf", 1);
    }
    says("with-handlers", "fib", fibs);
    end();
}
BARE static void with_children(void)
{
    CHECK((trace = mcount_trace("with-children")));
    CHECK(mcount_arm(trace, "leaf") == 1);
    CHECK(leaf(1) == 2);
    says("with-children", "leaf", 2);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++)
            CHECK(leaf(i) == i + 1);
        says("with-children", "leaf", 5);
        /* The trace is its parent's: this ends it for the child only. */
        exit(mcount_close(trace) ? 3 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(leaf(1) == 2);
    end();
}
BARE static void with_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], 0, run, 0) == 0);
    while (running < THREADS)
        usleep(100);
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "with-threads-%d", i);
        CHECK((trace = mcount_trace(name)));
        CHECK(mcount_arm(trace, "*") >= 4);
        CHECK(leaf(i) == i + 1);
        usleep(2000);
        end();
        says(name, "deep", 0);
        says(name, "leaf", 1);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}
BARE int main(int argc, char **argv)
{
    CHECK((truth = fopen("truth", "a")));
    usual();
    calls_under_way();
    with_handlers(argc > 1 && !strcmp(argv[1], "after-prologue"));
    with_children();
    with_threads();
    /* This one ends with the program. */
    CHECK((trace = mcount_trace("ended-by-exit")));
    CHECK(mcount_arm(trace, "leaf") == 1);
    CHECK(leaf(1) == 2);
    says("ended-by-exit", "leaf", 1);
    puts("ok");
    return 0;
}
