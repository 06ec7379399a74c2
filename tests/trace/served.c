/* Works when it's told to by a line on its standard input, in several threads, and prints how often each function was
 * called for that. So whoever attaches to it between two lines knows what the trace is to have. */
#include "hits.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#ifdef SANDBOX
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif
TRUTH()
enum { THREADS = 3 };
static pthread_barrier_t barrier;
static volatile int is_end;
static long results[THREADS];

NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int deep(int n) {
    HIT();
    return n ? deep(n - 1) + leaf(n) : 0;
}
NI int target(int n) {
    HIT();
    return leaf(n);
}
NI int jumps(int n) {
    HIT();
    return target(n + 1);
}
NI static void *other(void *p) {
    HIT();
    return (void *)(long)jumps((int)(long)p);
}
NI static long work(int n) {
    HIT();
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i) + jumps(i);
    return sum + deep(200);
}
QUIET static void *run(void *p) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (is_end)
            return 0;
        results[(long)p] = work(3000);
        pthread_barrier_wait(&barrier);
    }
}
QUIET static void say(void) {
    for (int i = 0; i < 64 && hits_[i].name; i++) {
        printf("%s %lu ", hits_[i].name, hits_[i].count);
        hits_[i].count = 0;
    }
    printf("\n");
    fflush(stdout);
}
QUIET int main(void) {
    char line[16];
#ifdef NOT_DUMPABLE
    prctl(PR_SET_DUMPABLE, 0);
#endif
#ifdef SANDBOX
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog filter = {1, &all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 2;
#endif
#ifdef IMPOSTOR
    /* What looks like the agent of an earlier trace, but for its code. */
    int fake = memfd_create("mcount-agent", MFD_CLOEXEC);
    char *at = (char *)0x600000000000;
    if (ftruncate(fake, 64 << 20) || pwrite(fake, "mcount-agent  1\n", 16, 0) != 16 || pwrite(fake, &at, 8, 16) != 8)
        return 2;
    mmap(at, 64 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fake, 0);
#endif
    pthread_t t[THREADS], one;
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], 0, run, (void *)i);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        void *result;
        if (!strcmp(line, "exec\n"))
            execl("/proc/self/exe", "served", (char *)0);
        long sum = work(100);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        /* A thread that begins while it's traced. */
        if (pthread_create(&one, 0, other, (void *)5) || pthread_join(one, &result))
            return 3;
        for (int i = 0; i < THREADS; i++)
            sum += results[i];
        if (sum + (long)result != 27109407L) {
            printf("wrong %ld\n", sum + (long)result);
            return 4;
        }
        say();
    }
    is_end = 1;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
    return 7;
}
