/* A server that never ends: two workers handle requests of ten sizes. docs/running.md watches it, and docs/patch.md
 * fixes its check while it runs.
 *
 *   cc -O1 -g -fpatchable-function-entry=5 -pthread -o serve examples/serve.c
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static volatile int limit = 100;
static volatile unsigned long refused, result;

APART int check(int size) { return size < limit; } /* wrong: 100 is allowed */

APART void work(int rounds)
{
    for (int i = 0; i < rounds; i++)
        result += i * 7919 % 5000;
}

APART void handle(int size)
{
    if (!check(size)) {
        refused++;
        return;
    }
    work(10000);
    usleep(size * 20); /* writes the answer */
}

static void *worker(void *unused)
{
    for (;;)
        for (int size = 10; size <= 100; size += 10)
            handle(size);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    pthread_join(threads[0], NULL);
}
