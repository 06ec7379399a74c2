/* Threads made by raw clone, without a thread library: they share its thread pointer. */
#include "hits.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
TRUTH()
static volatile long results[4];
static char stacks[4][256 << 10] __attribute__((aligned(64)));
static volatile int left[4];

NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static int body(void *p) {
    HIT();
    long i = (long)p;
    results[i] = work(12 + i);
    return 0;
}
int main(void) {
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD
                      | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    for (int i = 0; i < 4; i++) {
        left[i] = 1;
        if (clone(body, stacks[i] + sizeof stacks[i], flags, (void *)(long)i, 0, 0, &left[i]) < 0)
            return 2;
    }
    long own = work(14);
    for (int i = 0; i < 4; i++)
        while (left[i])
            syscall(SYS_futex, &left[i], FUTEX_WAIT, 1, 0, 0, 0);
    printf("%ld %ld %ld %ld %ld\n", own, results[0], results[1], results[2], results[3]);
    return 0;
}
