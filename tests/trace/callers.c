// turn() calls others again and again. Each turn takes so many steps of its own and of what it calls; a line with anything is answered by how many
// turns there were.
//
//   turn: 2000 steps, calls one() three times and two() once
//   one:   500 steps, calls leaf() twice
//   two:  1000 steps, calls leaf() four times, and rare(), which is declared to be cold: so that call is in a part of its own
//   leaf:  100 steps
//   rare:  300 steps, calls itself once

#include <pthread.h>
#include <stdio.h>

#define UNHOOKED __attribute__((noinline, patchable_function_entry(0, 0)))

static volatile unsigned long turns;
static volatile int limit = 1;

static inline __attribute__((always_inline)) void take(unsigned steps) {
    for (unsigned step = 0; step < steps; step++)
        __asm__ volatile("");
}

__attribute__((noinline)) static void leaf(void) { take(100); }

__attribute__((noinline, cold)) static void rare(int depth) {
    take(300);
    if (depth)
        rare(depth - 1);
    __asm__ volatile("");
}

__attribute__((noinline)) static void one(void) {
    take(500);
    leaf();
    leaf();
    __asm__ volatile("");
}

__attribute__((noinline)) static void two(void) {
    take(1000);
    for (int time = 0; time < 4; time++)
        leaf();
    if (limit)
        rare(1);
    __asm__ volatile("");
}

__attribute__((noinline)) static void turn(void) {
    take(2000);
    for (int time = 0; time < 3; time++)
        one();
    two();
    __asm__ volatile("");
}

UNHOOKED static void *work(void *unused) {
    for (;;) {
        turn();
        turns++;
    }
}

UNHOOKED int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    puts("ready");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        printf("%lu\n", turns);
        fflush(stdout);
    }
    return 0;
}
