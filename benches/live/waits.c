/* Programs that wait, or that might: "free" takes a lock that nobody else has, "queue" hands jobs to three threads, "pipe" hands a
 * byte to another process and back. Prints the processor time that they took in seconds, with that of children, and how long it was
 * until they had. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS 300000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static long queued, done, sum;
static int there[2], back[2];

static double processor(int who) {
    struct rusage used;
    getrusage(who, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) long job(void) {
    long sum = 0;
    for (volatile int i = 0; i < 3000; i++)
        sum += i;
    return sum;
}

__attribute__((noinline)) void take(void) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        sum++;
        pthread_mutex_unlock(&lock);
    }
}

static void *work(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!queued && done < JOBS)
            pthread_cond_wait(&more, &lock);
        if (done >= JOBS)
            break;
        queued--;
        if (++done == JOBS)
            pthread_cond_broadcast(&more);
        pthread_mutex_unlock(&lock);
        job();
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

static void queue(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(threads + i, NULL, work, NULL);
    for (int i = 0; i < JOBS; i++) {
        pthread_mutex_lock(&lock);
        queued++;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
        job();
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((noinline)) int ping(char byte) {
    return write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1;
}

static int hand_over(void) {
    char byte = 0;
    if (pipe(there) || pipe(back))
        return 3;
    if (!fork()) {
        close(there[1]);
        close(back[0]);
        while (read(there[0], &byte, 1) == 1)
            if (write(back[1], &byte, 1) != 1)
                return 4;
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    for (int i = 0; i < 150000; i++)
        if (!ping(byte))
            return 5;
    close(there[1]);
    wait(NULL);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int status = 0;
    double began = now();
    if (!strcmp(what, "free"))
        for (int i = 0; i < 150000; i++)
            take();
    else if (!strcmp(what, "queue"))
        queue();
    else if (!strcmp(what, "pipe"))
        status = hand_over();
    else
        return 2;
    double took = now() - began;
    printf("%.6f %.6f\n", processor(RUSAGE_SELF) + processor(RUSAGE_CHILDREN), took);
    return status;
}
