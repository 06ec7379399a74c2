/* Many threads of 68 calls each: so many in all, so many at a time, and if the third argument says so, no one ends before all others of its
 * time have begun. The fourth is what happens besides: "fork", "kill" (by itself, in the middle), or "served" (it waits for a line
 * first, and at its end for the end of its input). */
#include "hits.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
TRUTH()
static pthread_barrier_t all;
static int is_together;
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int work(int n) {
    HIT();
    for (int i = 0; i < 66; i++)
        n = leaf(n);
    return n;
}
NI static void *thread(void *p) {
    HIT();
    long n = work((int)(long)p);
    if (is_together)
        pthread_barrier_wait(&all);
    return (void *)n;
}
QUIET static long run(int count, int at_once) {
    pthread_attr_t small;
    pthread_t *threads = malloc(sizeof *threads * at_once);
    long sum = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32 << 10);
    for (int i = 0; i < count; i += at_once) {
        pthread_barrier_init(&all, 0, at_once);
        for (long k = 0; k < at_once; k++)
            if (pthread_create(&threads[k], &small, thread, (void *)k))
                exit(2);
        for (int k = 0; k < at_once; k++) {
            void *result;
            pthread_join(threads[k], &result);
            sum += (long)result;
        }
    }
    return sum;
}
QUIET int main(int argc, char **argv) {
    int count = atoi(argv[1]), at_once = atoi(argv[2]);
    const char *besides = argc > 4 ? argv[4] : "";
    char line[16];
    is_together = !strcmp(argv[3], "together");
    if (!strcmp(besides, "served")) {
        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 3;
    }
    long sum = run(count, at_once);
    if (!strcmp(besides, "kill")) {
        printf("%ld\n", sum);
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 4 && !strcmp(besides, "fork"); i++) {
        pid_t child = fork();
        if (!child) {
            CHILD();
            LEAVE(run(count, at_once) != sum);
        }
        int status;
        sum += run(count, at_once);
        if (waitpid(child, &status, 0) != child || status)
            return 4;
    }
    printf("%ld\n", sum);
    fflush(stdout);
    while (!strcmp(besides, "served") && fgets(line, sizeof line, stdin))
        ;
    return 0;
}
