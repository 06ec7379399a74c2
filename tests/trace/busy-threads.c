/* Threads compute without a rest, each the same again and again, until SIGTERM comes. Says whether all results were right. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NI __attribute__((noinline))
enum { THREADS = 3 };
static volatile sig_atomic_t is_end, ticks;
static volatile unsigned wrong;

NI unsigned mix(unsigned a, unsigned b) {
    __asm__ volatile("");
    return (a ^ b) * 2654435761u + (a >> 7);
}
NI unsigned tree(int depth, unsigned seed) {
    return depth ? mix(tree(depth - 1, seed + 1), tree(depth - 1, seed + 2)) : mix(seed, 1);
}
NI int compare(const void *a, const void *b) {
    return memcmp(a, b, 4);
}
NI unsigned round_of(unsigned seed) {
    unsigned all[32];
    char text[64];
    for (int i = 0; i < 32; i++)
        all[i] = mix(seed, i);
    qsort(all, 32, 4, compare);
    snprintf(text, sizeof text, "%u %x %s", all[0], all[31], "text");
    return mix(tree(6, seed), strlen(text) + all[5]);
}
static void tick(int signal) {
    ticks += mix(signal, 1) != 0;
}
static void end(int signal) {
    is_end = 1;
}
static void *work(void *p) {
    unsigned seed = (unsigned)(long)p, expected = round_of(seed);
    while (!is_end)
        if (round_of(seed) != expected)
            wrong++;
    return 0;
}
int main(void) {
    pthread_t threads[THREADS];
    signal(SIGTERM, end);
    signal(SIGALRM, tick);
    ualarm(1000, 1000);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    puts(wrong || !ticks ? "wrong" : "right");
    return wrong != 0;
}
