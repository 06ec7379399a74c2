/* A million frames deep, in a thread with room for them. */
#include "hits.h"
#include <pthread.h>
TRUTH()
NI static long down(long n) {
    HIT();
    long r = n ? down(n - 1) : 0;
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
NI static void *thread(void *p) {
    HIT();
    return (void *)down((long)p);
}
int main(void) {
    pthread_attr_t attributes;
    pthread_t t;
    void *result;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 20);
    if (pthread_create(&t, &attributes, thread, (void *)999999))
        return 2;
    pthread_join(t, &result);
    printf("%ld\n", (long)result);
    return 0;
}
