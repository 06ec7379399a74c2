/* Threads that wait in the kernel, each in another way, all of the time. The program says at the end which of these
 * calls failed: none does, whoever attaches meanwhile. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define NI __attribute__((noinline))
static volatile int is_end;
static int nothing[2];

NI static int in_epoll(void) {
    struct epoll_event event = {.events = EPOLLIN};
    int e = epoll_create1(0);
    if (epoll_ctl(e, EPOLL_CTL_ADD, nothing[0], &event))
        return -1;
    int result = epoll_wait(e, &event, 1, 300);
    int error = errno;
    close(e);
    errno = error;
    return result;
}
NI static int in_epoll_pwait(void) {
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t set;
    sigemptyset(&set);
    int e = epoll_create1(0);
    int result = epoll_pwait(e, &event, 1, 300, &set);
    int error = errno;
    close(e);
    errno = error;
    return result;
}
NI static int in_poll(void) {
    struct pollfd one = {.fd = nothing[0], .events = POLLIN};
    return poll(&one, 1, 300);
}
NI static int in_select(void) {
    struct timeval time = {.tv_usec = 300000};
    return select(0, 0, 0, 0, &time);
}
NI static int in_sleep(void) {
    struct timespec time = {.tv_nsec = 300000000};
    return nanosleep(&time, 0);
}
NI static int in_clock_sleep(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += 300000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, 0);
    return -errno;
}
NI static int in_semaphore(void) {
    sem_t one;
    struct timespec time;
    sem_init(&one, 0, 0);
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec++;
    return sem_timedwait(&one, &time) && errno == ETIMEDOUT ? 0 : -1;
}
NI static int in_semop(void) {
    int id = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf change = {.sem_op = -1};
    struct timespec time = {.tv_nsec = 300000000};
    int result = semtimedop(id, &change, 1, &time) && errno == EAGAIN ? 0 : -1;
    int error = errno;
    semctl(id, 0, IPC_RMID);
    errno = error;
    return result;
}
NI static int in_receive(void) {
    int pair[2];
    char byte;
    struct timeval time = {.tv_usec = 300000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)
        || setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time))
        return -1;
    int result = recv(pair[0], &byte, 1, 0) < 0 && errno == EAGAIN ? 0 : -1;
    int error = errno;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return result;
}
NI static int in_read(void) {
    char byte;
    int pair[2];
    if (pipe(pair))
        return -1;
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    poll(&one, 1, 100);
    write(pair[1], "x", 1);
    int result = read(pair[0], &byte, 1) == 1 ? 0 : -1;
    close(pair[0]);
    close(pair[1]);
    return result;
}
NI static int in_signal(void) {
    sigset_t set;
    struct timespec time = {.tv_nsec = 300000000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, 0, &time) < 0 && errno == EAGAIN ? 0 : -1;
}
static int (*const ways[])(void) = {in_epoll, in_epoll_pwait, in_poll, in_select, in_sleep, in_clock_sleep, in_semaphore,
                                    in_semop, in_receive, in_read, in_signal};
static const char *const names[] = {"epoll", "epoll_pwait", "poll", "select", "sleep", "clock_sleep", "semaphore",
                                    "semop", "receive", "read", "signal"};
enum { WAYS = sizeof ways / sizeof *ways };
static int failures[WAYS], errors[WAYS];

static void *run(void *p) {
    long way = (long)p;
    while (!is_end)
        if (ways[way]() < 0) {
            failures[way]++;
            errors[way] = errno;
        }
    return 0;
}
int main(void) {
    char line[16];
    pthread_t t[WAYS];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    if (pipe(nothing))
        return 2;
    for (long i = 0; i < WAYS; i++)
        pthread_create(&t[i], 0, run, (void *)i);
    /* If it hangs, it doesn't for ever. */
    alarm(1000);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    is_end = 1;
    for (int i = 0; i < WAYS; i++) {
        pthread_join(t[i], 0);
        if (failures[i])
            printf("%s failed %d times: %s\n", names[i], failures[i], strerror(errors[i]));
    }
    return 7;
}
