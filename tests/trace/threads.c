/* Ten thousand threads, most of them short. */
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
int main(int argc, char **argv) {
    enum { AT_ONCE = 20 };
    int rounds = (argc > 1 ? atoi(argv[1]) : 10000) / AT_ONCE;
    long sum = 0;
    for (int i = 0; i < rounds; i++) {
        pthread_t t[AT_ONCE];
        for (long k = 0; k < AT_ONCE; k++)
            if (pthread_create(&t[k], 0, thread, (void *)k))
                return 2;
        for (int k = 0; k < AT_ONCE; k++) {
            void *result;
            pthread_join(t[k], &result);
            sum += (long)result;
        }
    }
    printf("%ld\n", sum);
    return 0;
}
