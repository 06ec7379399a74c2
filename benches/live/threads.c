/* As many threads as the argument says, which wait most of the time, and call some of ten thousand functions
 * (tests/live/many.c) now and then. Ends with its standard input. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
extern uint64_t (*const table[])(uint64_t);
enum { FUNCTIONS = 10000 };
static void *run(void *data) {
    uint64_t x = (uintptr_t)data;
    struct timespec pause = {0, 2000000};
    for (;;) {
        for (int i = 0; i < 20; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            table[(x >> 33) % FUNCTIONS](x);
        }
        nanosleep(&pause, 0);
    }
}
int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 100;
    pthread_t thread;
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread, 0, run, (void *)i))
            return 1;
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
