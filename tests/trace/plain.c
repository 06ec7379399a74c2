/* A bit of everything that C does with calls: recursion, tail calls, longjmp, callbacks, signals, fork. */
#include "hits.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
TRUTH()

#ifndef LEAVES
#define LEAVES 200000
#endif

struct big {
    long v[9];
};
static jmp_buf back;
static volatile int seen;
static volatile sig_atomic_t ticks;

NI int fib(int n) {
    HIT();
    if (n < 2)
        return n;
    int a = fib(n - 1), b = fib(n - 2);
    __asm__ volatile("" : "+r"(a), "+r"(b));
    return a + b;
}
NI int even(unsigned n);
NI int odd(unsigned n) {
    HIT();
    return n == 0 ? 0 : even(n - 1);
}
NI int even(unsigned n) {
    HIT();
    return n == 0 ? 1 : odd(n - 1);
}
NI void deep(int n) {
    HIT();
    char pad[64];
    memset(pad, n, sizeof pad);
    seen = pad[n & 63];
    if (n == 0)
        longjmp(back, 7);
    deep(n - 1);
    seen++;
}
NI int by_value(double a, float b, long c, int d, int e, int f, int g, int h) {
    HIT();
    return (int)(a + b) + c + d + e + f + g + h;
}
NI int compare(const void *a, const void *b) {
    HIT();
    return *(const int *)a - *(const int *)b;
}
NI struct big make(long x) {
    HIT();
    struct big b;
    for (int i = 0; i < 9; i++)
        b.v[i] = x * i;
    return b;
}
NI void on_tick(int s) {
    (void)s;
    ticks++;
}
NI int leaf(int x) {
    HIT();
    return x * 3;
}

int main(void) {
    volatile long jumps = 0, sum = 0;
    int a[500], status;
    printf("fib %d\n", fib(18));
    printf("even %d\n", even(10000));
    for (volatile int i = 0; i < 50; i++) {
        if (setjmp(back) == 0)
            deep(20 + i);
        else
            jumps++;
    }
    printf("jumps %ld\n", jumps);
    for (int i = 0; i < 500; i++)
        a[i] = (i * 7919) % 500;
    qsort(a, 500, sizeof *a, compare);
    printf("sorted %d %d\n", a[0], a[499]);
    printf("values %d\n", by_value(1.5, 2.5f, 3, 4, 5, 6, 7, 8));
    struct big b = make(5);
    printf("big %ld\n", b.v[8]);
    signal(SIGALRM, on_tick);
    struct itimerval t = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &t, 0);
    for (int i = 0; i < LEAVES; i++)
        sum += leaf(i);
    memset(&t, 0, sizeof t);
    setitimer(ITIMER_REAL, &t, 0);
    printf("leaf %ld %d\n", sum, ticks >= 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHILD();
        int v = leaf(4);
        LEAVE(v == 12 ? 3 : 4);
    }
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return 42;
}
