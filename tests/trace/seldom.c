// A thread calls steady() all the time. Once it's told to begin, it also calls late() each time, and one of 2,048 other functions, one after the other.
//
// With an argument, it doesn't call anything until then, and all of it takes less time.
//
// A line "begin" tells it. Any line is answered by: the time, and the calls of steady(), late() and all the others.

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NI __attribute__((noipa))
#define UNHOOKED __attribute__((noinline, patchable_function_entry(0, 0)))

#define ONE(n) NI static void function_##n(void) { __asm__ volatile(""); }
#define NAME(n) function_##n,
#define BY_16(M, n)                                                                            \
    M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9) M(n##a)    \
    M(n##b) M(n##c) M(n##d) M(n##e) M(n##f)
#define BY_256(M, n)                                                                           \
    BY_16(M, n##0) BY_16(M, n##1) BY_16(M, n##2) BY_16(M, n##3) BY_16(M, n##4) BY_16(M, n##5)  \
    BY_16(M, n##6) BY_16(M, n##7) BY_16(M, n##8) BY_16(M, n##9) BY_16(M, n##a) BY_16(M, n##b)  \
    BY_16(M, n##c) BY_16(M, n##d) BY_16(M, n##e) BY_16(M, n##f)
#define ALL(M)                                                                                 \
    BY_256(M, 0) BY_256(M, 1) BY_256(M, 2) BY_256(M, 3) BY_256(M, 4) BY_256(M, 5)              \
    BY_256(M, 6) BY_256(M, 7)

ALL(ONE)
static void (*const others[])(void) = {ALL(NAME)};
enum { COUNT = sizeof others / sizeof *others };

static volatile int has_begun, is_idle, turns = 1000;
static volatile unsigned long steadies, lates, all_others;

NI static void steady(void) { for (volatile int turn = 0; turn < turns; turn++); }
NI static void late(void) { __asm__ volatile(""); }

UNHOOKED static void *work(void *unused) {
    while (is_idle && !has_begun)
        usleep(1000);
    for (unsigned place = 0;; place = (place + 1) % COUNT) {
        steady();
        steadies++;
        if (!has_begun)
            continue;
        late();
        lates++;
        others[place]();
        all_others++;
    }
}

UNHOOKED int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        is_idle = 1;
        turns = 200;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    puts("ready");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        has_begun |= !strncmp(line, "begin", 5);
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        printf("%ld %lu %lu %lu\n", time.tv_sec * 1000000000l + time.tv_nsec, steadies, lates, all_others);
        fflush(stdout);
    }
    return 0;
}
