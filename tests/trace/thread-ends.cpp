/* Threads that end by pthread_exit and by cancellation, deferred and asynchronous, with destructors. */
#include "hits.h"
#include <pthread.h>
TRUTH()

static int live, cleaned;
struct Guard {
    Guard() { __atomic_fetch_add(&live, 1, __ATOMIC_SEQ_CST); }
    ~Guard() { __atomic_fetch_sub(&live, 1, __ATOMIC_SEQ_CST); }
};
NI static void clean(void *) {
    HIT();
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_SEQ_CST);
}
NI static int exits(int n) {
    HIT();
    Guard g;
    if (n == 0)
        pthread_exit((void *)7);
    int r = exits(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r;
}
static volatile int started;
NI static int waits(int n) {
    HIT();
    Guard g;
    int r = 0;
    if (n == 0) {
        __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
        for (;;)
            AWAIT_CANCELLATION();
    } else {
        r = waits(n - 1);
    }
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static void *by_exit(void *) {
    HIT();
    pthread_cleanup_push(clean, 0);
    exits(50);
    pthread_cleanup_pop(0);
    return 0;
}
NI static void *by_cancel(void *) {
    HIT();
    pthread_cleanup_push(clean, 0);
    waits(50);
    pthread_cleanup_pop(0);
    return 0;
}
NI static void *spins(void *) {
    HIT();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    for (;;)
        PAUSE();
    return 0;
}
NI static void destroy(void *) { HIT(); }

int main() {
    pthread_t a, b, c;
    pthread_key_t key;
    pthread_key_create(&key, destroy);
    pthread_setspecific(key, &key);
    int right = 0;
    for (int i = 1; i <= 10; i++) {
        void *x, *y, *z;
        pthread_create(&a, 0, by_exit, 0);
        pthread_create(&b, 0, by_cancel, 0);
        pthread_create(&c, 0, spins, 0);
        while (started < 2 * i)
            usleep(100);
        pthread_cancel(b);
        pthread_cancel(c);
        pthread_join(a, &x);
        pthread_join(b, &y);
        pthread_join(c, &z);
        right += x == (void *)7 && y == PTHREAD_CANCELED && z == PTHREAD_CANCELED;
    }
    printf("right %d live %d cleaned %d\n", right, live, cleaned);
    return 0;
}
