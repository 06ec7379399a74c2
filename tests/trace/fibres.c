/* Fibres (swapcontext) that are resumed by another thread each time, each in the middle of nested calls. */
#include "hits.h"
#include <pthread.h>
#include <ucontext.h>
TRUTH()

enum { FIBRES = 32, THREADS = 4, ROUNDS = 100 };
static struct fibre {
    ucontext_t own;
    ucontext_t *resumer;
    char stack[64 << 10];
    int done;
    long sum;
} fibres[FIBRES];
static pthread_barrier_t barrier;

NI static int leaf(int x) {
    HIT();
    return x + 1;
}
NI static int step(struct fibre *f, int n) {
    HIT();
    f->sum += leaf(n);
    if (n % 5 == 0)
        swapcontext(&f->own, f->resumer);
    int r = n ? step(f, n - 1) : 0;
    __asm__ volatile("" : "+r"(r));
    return r + leaf(n);
}
NI static void body(int i) {
    HIT();
    for (int n = 0; n < 20; n++)
        fibres[i].sum += step(&fibres[i], 20);
    fibres[i].done = 1;
    swapcontext(&fibres[i].own, fibres[i].resumer);
}
NI static void *thread(void *p) {
    HIT();
    ucontext_t here;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = (int)(long)p; i < FIBRES; i += THREADS) {
            struct fibre *f = &fibres[(i + round) % FIBRES];
            f->resumer = &here;
            if (!f->done)
                swapcontext(&here, &f->own);
        }
        pthread_barrier_wait(&barrier);
    }
    return 0;
}
int main(void) {
    pthread_t t[THREADS];
    long sum = 0;
    int done = 0;
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int i = 0; i < FIBRES; i++) {
        getcontext(&fibres[i].own);
        fibres[i].own.uc_stack.ss_sp = fibres[i].stack;
        fibres[i].own.uc_stack.ss_size = sizeof fibres[i].stack;
        makecontext(&fibres[i].own, (void (*)(void))body, 1, i);
    }
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], 0, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
    for (int i = 0; i < FIBRES; i++) {
        sum += fibres[i].sum;
        done += fibres[i].done;
    }
    printf("%ld %d\n", sum, done);
    return 0;
}
