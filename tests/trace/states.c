/* Waits for things of several kinds, and computes. Prints how many nanoseconds each took by its own clock. */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NI __attribute__((noinline))
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], held[2];

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
#define TIMED(name, call) \
    do { \
        long began = now(); \
        call; \
        printf("%s %ld\n", name, now() - began); \
    } while (0)

static void *holder(void *p) {
    char byte = 0;
    pthread_mutex_lock(&lock);
    write(held[1], &byte, 1);
    usleep(120000);
    pthread_mutex_unlock(&lock);
    return p;
}
static void *sender(void *p) {
    char byte = 0;
    usleep(80000);
    send(ends[1], &byte, 1, 0);
    return p;
}
static void *napper(void *p) {
    usleep(70000);
    return p;
}
NI void takes(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}
NI void receives(void) {
    char byte;
    recv(ends[0], &byte, 1, 0);
}
NI void sleeps(void) {
    usleep(60000);
}
NI void joins(pthread_t thread) {
    pthread_join(thread, 0);
}
NI void computes(void) {
    struct timespec used;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec == 0 && used.tv_nsec < 60000000);
}
int main(void) {
    pthread_t a, b, c;
    char byte;
    pipe(held);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pthread_create(&a, 0, holder, 0);
    read(held[0], &byte, 1);
    TIMED("takes", takes());
    pthread_create(&b, 0, sender, 0);
    TIMED("receives", receives());
    TIMED("sleeps", sleeps());
    pthread_create(&c, 0, napper, 0);
    TIMED("joins", joins(c));
    TIMED("computes", computes());
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
