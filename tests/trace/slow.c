// Threads call handle(), which takes 20 ms now and then, with calls of parse() and dig() in it, and one thread calls busy() all the time.
// A line with anything is answered by a line of all calls that took 10 ms: thread ID, when they began (nanoseconds since 1970), how long
// they took as seen from within and from without, and how many calls were made in them. The program ends at the end of its input.
//
// Arguments: threads.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UNHOOKED __attribute__((noinline, patchable_function_entry(0, 0)))
#define MOST 100000
#define SLOW 10000000ul

struct call {
    unsigned long thread, start, within, without, calls;
};

static struct call slow[MOST];
static unsigned count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

UNHOOKED static unsigned long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

UNHOOKED static void rest(unsigned microseconds) {
    usleep(microseconds);
}

__attribute__((noipa)) static void parse(void) {
    for (volatile unsigned turn = 0; turn < 100; turn++) {
    }
}

__attribute__((noipa)) static void dig(unsigned microseconds) {
    parse();
    rest(microseconds);
}

__attribute__((noipa)) static unsigned long handle(unsigned number) {
    unsigned long start = now(CLOCK_MONOTONIC);
    for (unsigned turn = 0; turn < number % 5; turn++)
        parse();
    if (number % 30 == 7)
        dig(20000);
    rest(500);
    return now(CLOCK_MONOTONIC) - start;
}

__attribute__((noipa)) static void busy(void) {
    __asm__ volatile("");
}

UNHOOKED static void *work(void *first) {
    for (unsigned number = (unsigned)(long)first;; number++) {
        unsigned long start = now(CLOCK_MONOTONIC), began = now(CLOCK_REALTIME);
        unsigned long within = handle(number), without = now(CLOCK_MONOTONIC) - start;
        if (without < SLOW)
            continue;
        unsigned long calls = number % 5 + (number % 30 == 7 ? 2 : 0);
        pthread_mutex_lock(&lock);
        if (count < MOST)
            slow[count++] = (struct call){syscall(SYS_gettid), began, within, without, calls};
        pthread_mutex_unlock(&lock);
    }
}

UNHOOKED static void *hurry(void *unused) {
    for (;;)
        busy();
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread;
    pthread_create(&thread, NULL, hurry, NULL);
    for (long number = 0; number < threads; number++)
        pthread_create(&thread, NULL, work, (void *)(number * 11));
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        pthread_mutex_lock(&lock);
        for (unsigned at = 0; at < count; at++)
            printf("%lu %lu %lu %lu %lu;", slow[at].thread, slow[at].start, slow[at].within, slow[at].without, slow[at].calls);
        pthread_mutex_unlock(&lock);
        puts("");
        fflush(stdout);
    }
    return 0;
}
