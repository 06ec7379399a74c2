/* Forty threads are there at once and end. When the system knows none of them any more, the first one makes a hundred thousand calls. */
#include "hits.h"
#include <pthread.h>
#include <sys/stat.h>
TRUTH()
static pthread_barrier_t all;
NI static int early(int n) {
    HIT();
    return n + 1;
}
NI static int late(int n) {
    HIT();
    return n + 2;
}
NI static void *thread(void *p) {
    HIT();
    early(1);
    pthread_barrier_wait(&all);
    return p;
}
QUIET int main(void) {
    enum { COUNT = 40 };
    pthread_t threads[COUNT];
    volatile int n = 0;
    pthread_barrier_init(&all, 0, COUNT);
    for (int i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], 0, thread, 0))
            exit(2);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], 0);
    struct stat tasks;
    while (!stat("/proc/self/task", &tasks) && tasks.st_nlink > 3)
        usleep(1000);
    for (int i = 0; i < 100000; i++)
        n = late(n);
    printf("%d\n", n);
    return 0;
}
