/* Coroutines that share a stack, as in copies.c, four in each thread: they call, throw and switch at random, SEED says how. Meanwhile a
 * profiler takes backtraces, one coroutine forks, and in each thread one is left for good where it is. */
#include "hits.h"
#include "stubs.h"
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <execinfo.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
TRUTH()

#ifndef SWITCHES
#define SWITCHES 1000000
#endif
#ifndef SEED
#define SEED 20261125
#endif

enum { THREADS = 4, COUNT = 4 };
struct coroutine {
    jmp_buf own;
    char *low, *copy;
    size_t size;
    bool is_started, is_done;
    uint64_t random;
    unsigned long sum;
};
struct coroutines {
    coroutine all[COUNT];
    coroutine *now;
    jmp_buf scheduler;
    char *base;
    uint64_t random;
    long left;
    bool has_forked, is_child, may_fork;
    unsigned long of_child;
};
static thread_local coroutines *set;
/* Parts of the stack are being copied, or an unwinder is about to leave some, so nobody can take a backtrace. */
static thread_local volatile sig_atomic_t is_switching = 1;
static volatile sig_atomic_t samples;

QUIET static unsigned next(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % below;
}
QUIET static unsigned draw(unsigned below)
{
    return next(&set->now->random, below);
}
QUIET static void on_tick(int)
{
    void *all[64];
#if defined __powerpc64__ || defined __arm__ || defined __aarch64__
    /* Unwinders may read where nothing is, traced or not: QEMU (7.2) returns from signal handlers of powerpc64le by code that they don't
     * know, the tables of 32-bit Arm are right at calls only, and on AArch64 those of lazy binding (glibc 2.36) are wrong. */
    int count = 64;
#else
    int count = is_switching ? 64 : backtrace(all, 64);
#endif
#ifdef __x86_64__
    /* Elsewhere a stub cuts it. */
    if (count < 4 && !is_in_stub(count, all))
        abort();
#else
    (void)count, (void)all;
#endif
    samples = samples + 1;
}
QUIET static void keep()
{
    coroutine *now = set->now;
    now->low = static_cast<char *>(__builtin_frame_address(0));
    size_t size = static_cast<size_t>(set->base - now->low);
    if (size > now->size)
        now->copy = static_cast<char *>(realloc(now->copy, size));
    now->size = size;
    memcpy(now->copy, now->low, size);
}
QUIET static void put_back()
{
    volatile char room[1024];
    room[0] = 0;
    coroutine *now = set->now;
    if (const_cast<char *>(room) > now->low - 1024) {
        put_back();
    } else {
        memcpy(now->low, now->copy, now->size);
        longjmp(now->own, 1);
    }
    room[1] = 0;
}
/* The set may be another one's afterwards, but of the same thread. */
NI static void yield()
{
    HIT();
    if (set->left <= 0)
        return;
    set->left--;
    is_switching = 1;
    if (!setjmp(set->now->own)) {
        keep();
        longjmp(set->scheduler, 1);
    }
    is_switching = 0;
}
NI static unsigned long leaf(unsigned long x)
{
    HIT();
    return x * 3 + 1;
}
NI static void fork_here()
{
    HIT();
    pid_t child = fork();
    if (child == 0) {
        CHILD();
        set->is_child = true;
        set->left = 2000;
        return;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        ;
    set->of_child = static_cast<unsigned long>(status);
}
NI static unsigned long deep(int n);
NI static unsigned long wide(int n)
{
    HIT();
    volatile char *room = static_cast<volatile char *>(alloca(16 * (draw(4) + 1)));
    room[0] = static_cast<char>(n);
    unsigned long sum = n ? deep(n - 1) : 0;
    if (draw(3) == 0)
        yield();
    return sum + static_cast<unsigned char>(room[0]) + leaf(sum);
}
struct guard {
    unsigned long &sum;
    NI ~guard()
    {
        HIT();
        sum += 7;
    }
};
NI static unsigned long thrower(int n)
{
    HIT();
    unsigned long sum = leaf(static_cast<unsigned long>(n));
    guard guard{sum};
    if (draw(2))
        yield();
    if (n == 0 || draw(6) == 0) {
        is_switching = 1;
        throw static_cast<int>(sum & 63);
    }
    return sum + deep(n - 1);
}
NI static unsigned long catcher(int n)
{
    HIT();
    unsigned long sum = 0;
    try {
        sum += n ? thrower(n - 1) : 1;
    } catch (int thrown) {
        /* Not here: a thread's exceptions are in a list. */
        is_switching = 0;
        sum += static_cast<unsigned long>(thrown);
    }
    yield();
    return sum;
}
NI static unsigned long deep(int n)
{
    HIT();
    unsigned long sum = leaf(draw(100));
    if (draw(2))
        yield();
    if (n > 0) {
        switch (draw(4)) {
        case 0: sum += wide(n - 1); break;
        case 1: sum += catcher(n - 1); break;
        default: sum += deep(n - 1);
        }
    }
    if (set->may_fork && !set->has_forked && set->left < 3000 && n < 2) {
        set->has_forked = true;
        fork_here();
    }
    if (draw(3) == 0)
        yield();
    return sum + leaf(sum);
}
NI static void begin()
{
    HIT();
    /* No argument: it might be above the frame. */
    coroutine *own = set->now;
    set->base = static_cast<char *>(FRAME_END());
    is_switching = 0;
    while (set->left > 0) {
        try {
            unsigned long sum = deep(static_cast<int>(draw(24)));
            own->sum = own->sum * 31 + sum;
        } catch (int thrown) {
            is_switching = 0;
            own->sum += static_cast<unsigned long>(thrown);
        }
    }
    own->is_done = true;
    is_switching = 1;
    longjmp(set->scheduler, 1);
}
/* The first one is never done: it stays where it was when it last switched. */
NI static void schedule()
{
    HIT();
    static thread_local int i, left;
    do {
        left = 0;
        for (i = 0; i < COUNT; i++)
            left += !set->all[i].is_done && (i || set->left > 0);
        i = static_cast<int>(next(&set->random, COUNT));
        set->now = &set->all[i];
        if (!set->now->is_done && (i || set->left > 0) && !setjmp(set->scheduler)) {
            if (set->now->is_started)
                put_back();
            set->now->is_started = true;
            begin();
        }
    } while (left);
}
NI static void *run(void *argument)
{
    HIT();
    uintptr_t number = reinterpret_cast<uintptr_t>(argument);
    set = new coroutines();
    set->random = SEED + number;
    set->left = SWITCHES / THREADS;
    set->may_fork = number == 0;
    for (int i = 0; i < COUNT; i++)
        set->all[i].random = SEED * 31 + number * COUNT + static_cast<uintptr_t>(i);
    schedule();
    unsigned long sum = set->of_child;
    for (coroutine &one : set->all)
        sum = sum * 31 + one.sum;
    if (set->is_child)
        LEAVE(static_cast<int>(sum & 63));
    return reinterpret_cast<void *>(sum);
}
int main()
{
    void *first[2];
    backtrace(first, 2);
    struct sigaction action = {};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);
    itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &often, nullptr);
    pthread_t all[THREADS];
    for (uintptr_t i = 1; i < THREADS; i++)
        pthread_create(&all[i], nullptr, run, reinterpret_cast<void *>(i));
    unsigned long sum = reinterpret_cast<unsigned long>(run(nullptr));
    for (int i = 1; i < THREADS; i++) {
        void *of = nullptr;
        pthread_join(all[i], &of);
        sum = sum * 31 + reinterpret_cast<unsigned long>(of);
    }
    printf("seed %lu: %lu\n", static_cast<unsigned long>(SEED), sum);
    return 0;
}
