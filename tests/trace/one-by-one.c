/* Threads, one after the other, each of which makes a few calls. */
#include "hits.h"
#include <pthread.h>
TRUTH()
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static void *thread(void *p) {
    HIT();
    return (void *)(long)leaf((int)(long)p);
}
int main(void) {
    long sum = 0;
    for (long i = 0; i < 2000; i++) {
        pthread_t t;
        void *result = 0;
        if (pthread_create(&t, 0, thread, (void *)i) || pthread_join(t, &result))
            return 1;
        sum += (long)result;
    }
    printf("%ld\n", sum);
    return 0;
}
