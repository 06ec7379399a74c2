/* A profiler in the program: SIGPROF a thousand times a second of processor time, each with a backtrace that
 * has to reach the bottom of the stack. */
#include "hits.h"
#include "stubs.h"
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
TRUTH()

static volatile sig_atomic_t samples, broken, in_function;
static void *bottom;

NI static int fib(int n) {
    HIT();
    int r = n < 2 ? n : fib(n - 1) + fib(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
QUIET static void on_sample(int s) {
    (void)s;
    void *frames[128];
    int n = backtrace(frames, 128);
    if (is_in_stub(n, frames))
        return;
    /* The last frames are those of main, or of the thread's first function, each time. */
    if (in_function && (n < 3 || !frames[n - 1] || (bottom && frames[n - 1] != bottom)))
        broken++;
    if (in_function && !bottom && n > 3)
        bottom = frames[n - 1];
    samples++;
}
int main(void) {
    void *one[1];
    backtrace(one, 1);
    signal(SIGPROF, on_sample);
    struct itimerval t = {{0, 1000}, {0, 1000}};
    long sum = 0;
    in_function = 1;
    setitimer(ITIMER_PROF, &t, 0);
    while (samples < 50) {
        sum += fib(10) == 55;
        for (int i = 0; i < 500; i++)
            PAUSE();
    }
    memset(&t, 0, sizeof t);
    setitimer(ITIMER_PROF, &t, 0);
    printf("%d broken of some\n", broken);
    return sum > 0 ? 0 : 1;
}
