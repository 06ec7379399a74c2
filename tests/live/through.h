/* Threads that run through ten thousand functions, and whatever else comes and goes meanwhile. They check each result. */
#ifndef THROUGH_H
#define THROUGH_H
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 10000, THREADS = 8 };
extern uint64_t (*const table[])(uint64_t);

static atomic_int stop, wrong;
static atomic_ulong calls, signals;

BARE static uint64_t expected(unsigned n, uint64_t x) { return x * (2 * n + 1) + n; }
BARE static void check(unsigned n, uint64_t x)
{
    if (table[n](x) != expected(n, x)) {
        fprintf(stderr, "wrong result of f%04u\n", n);
        wrong = 1;
    }
}
BARE static void on_signal(int signal)
{
    int before = errno;
    (void)signal;
    signals++;
    for (unsigned i = 0; i < 3; i++)
        check(i * 77, i);
    errno = before;
}
BARE static void *run(void *data)
{
    uint64_t x = (uint64_t)(uintptr_t)data * 7 + 1;
    unsigned long count = 0;
    while (!stop) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        errno = 3;
        check((unsigned)(x >> 33) % FUNCTIONS, x);
        if (errno != 3) {
            fprintf(stderr, "errno has changed\n");
            wrong = 1;
        }
        count++;
    }
    calls += count;
    return 0;
}
BARE static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
BARE static void begin_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    /* Not SIGPROF, which is the profiler's in a program that is linked with -pg. */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    timer_t timer;
    sigaction(SIGVTALRM, &action, 0);
    CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &often, 0) == 0);
}
BARE static void *short_one(void *data)
{
    for (unsigned i = 0; i < 200; i++)
        check((unsigned)(uintptr_t)data % 97 * 100 + i % 100, i);
    return data;
}
BARE static int in_child(unsigned n)
{
    pid_t child = fork();
    if (child == 0) {
        short_one((void *)(uintptr_t)n);
        _exit(wrong);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}
BARE static int in_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    long (*twice)(long) = library ? (long (*)(long))dlsym(library, "plugin_twice") : 0;
    long result = twice ? twice(21) : 0;
    return library && dlclose(library) == 0 && result == 42 ? 0 : -1;
}
/* What comes and goes, until it's told to stop. */
BARE static void *come_and_go(void *library)
{
    unsigned long count = 0;
    for (; !stop && !wrong; count++) {
        pthread_t thread;
        void *result = 0;
        if (pthread_create(&thread, 0, short_one, (void *)count) || pthread_join(thread, &result)
            || result != (void *)count) {
            fprintf(stderr, "a short thread\n");
            wrong = 1;
        }
        int status = in_child((unsigned)count);
        if (status) {
            fprintf(stderr, "a child ended with %x\n", (unsigned)status);
            wrong = 1;
        }
        if (library && in_library(library)) {
            fprintf(stderr, "the library\n");
            wrong = 1;
        }
    }
    return (void *)count;
}
#endif
