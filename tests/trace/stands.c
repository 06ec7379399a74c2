/* Threads that are in a system call of one kind most of the time, or never, and check all that they get. It says "ready", and
 * at the end of its input how much went wrong: results, registers, and calls that end early. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define HOOKED __attribute__((noinline))
static const char *kind;
static volatile int stop;
static volatile unsigned long wrong, early;
static int pipes[2];

HOOKED unsigned long leaf(unsigned long n) {
    __asm__ volatile("");
    return 3 * n + 1;
}
/* Has words in all registers that are kept, and numbers in those for vectors. */
HOOKED unsigned long sum(unsigned long n) {
    unsigned long a = n, b = n ^ 5, c = n + 7, d = 9, e = 11;
    double x = n, y = 1, z = 0.5;
    for (int i = 0; i < 50; i++) {
        a += leaf(b), b ^= c + d, c -= e, d += a & 3, e ^= n;
        x = x * 0.5 + y, y += z, z *= 0.99;
    }
    return a + b + c + d + e + (unsigned long)(x + y + z);
}
HOOKED static void once(int epoll) {
    struct timespec pause = {0, 2000000};
    char byte;
    int word = 0;
    if (!strcmp(kind, "epoll")) {
        struct epoll_event event;
        int got = epoll_wait(epoll, &event, 1, 5);
        early += got < 0 && errno == EINTR;
        wrong += got != 0 && errno != EINTR;
    } else if (!strcmp(kind, "futex")) {
        long got = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, 0, 0);
        early += got < 0 && errno == EINTR;
        wrong += got == 0 || (errno != ETIMEDOUT && errno != EINTR);
    } else if (!strcmp(kind, "read")) {
        ssize_t got = read(pipes[0], &byte, 1);
        early += got < 0 && errno == EINTR;
        wrong += got != 1 && errno != EINTR;
    }
}
static void *work(void *argument) {
    unsigned long number = (unsigned long)argument, expected = sum(number);
    int epoll = epoll_create1(0);
    while (!stop) {
        once(epoll);
        wrong += sum(number) != expected;
    }
    close(epoll);
    return 0;
}
static void *feed(void *argument) {
    struct timespec pause = {0, 300000};
    while (!stop) {
        wrong += write(pipes[1], "x", 1) != 1 && errno != EAGAIN;
        nanosleep(&pause, 0);
    }
    return argument;
}
int main(int count, char **arguments) {
    static pthread_t threads[100];
    pthread_t feeder;
    long number = count > 2 ? atoi(arguments[2]) : 1;
    char line[16];
    kind = arguments[1];
    /* Where nobody reads, it's full after 20 seconds. */
    if (pipe(pipes) || fcntl(pipes[1], F_SETFL, O_NONBLOCK))
        return 3;
    pthread_create(&feeder, 0, feed, 0);
    for (long i = 0; i < number; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        puts("here");
        fflush(stdout);
    }
    stop = 1;
    for (long i = 0; i < 2 * number; i++)
        if (write(pipes[1], "x", 1) != 1 && errno != EAGAIN)
            return 4;
    for (long i = 0; i < number; i++)
        pthread_join(threads[i], 0);
    pthread_join(feeder, 0);
    printf("%lu wrong, %lu early\n", wrong, early);
    return 0;
}
