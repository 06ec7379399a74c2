/* Runs until it's told to stop, counts its calls in a shared file, whose last word is its process, and checks
 * its own results. With a third argument it also opens and closes that library, and makes threads, all the
 * time. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define NI __attribute__((noinline))
static volatile sig_atomic_t stop;
static unsigned long *shared;
static volatile int wrong;
static const char *library;

static void on_term(int s) {
    (void)s;
    stop = 1;
}
NI long mix(long x) { return (x ^ (x >> 7)) * 31 + 17; }
NI long twice(long x) { return mix(x) + mix(x + 1); }
NI long check(long x) {
    long r = twice(x);
    if (r != ((x ^ (x >> 7)) * 31 + 17) + (((x + 1) ^ ((x + 1) >> 7)) * 31 + 17))
        wrong = 1;
    return r;
}
static void *run(void *p) {
    unsigned long *mine = shared + 8 * (long)p;
    long x = (long)p;
    while (!stop) {
        x = check(x) & 0xffffff;
        /* Slow enough that a trace of some seconds stays small. */
        if (++*(volatile unsigned long *)mine % 64 == 0)
            usleep(100);
    }
    return 0;
}
static void *once(void *p) {
    check(5);
    return p;
}
static int open_library(void) {
    void *handle = dlopen(library, RTLD_NOW);
    int (*function)(int) = handle ? (int (*)(int))dlsym(handle, "plugin") : 0;
    int right = function && function(20) == 41;
    return (handle && dlclose(handle) == 0 && right) ? 0 : 1;
}
int main(int argc, char **argv) {
    int n = atoi(argv[2]), file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096))
        return 9;
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared[511] = getpid();
    library = argc > 3 ? argv[3] : 0;
    signal(SIGTERM, on_term);
    pthread_t t[32];
    for (long i = 0; i < n; i++)
        pthread_create(&t[i], 0, run, (void *)i);
    printf("ready\n");
    fflush(stdout);
    while (!stop) {
        usleep(1000);
        if (library && open_library())
            wrong = 2;
        pthread_t short_one;
        if (library && (pthread_create(&short_one, 0, once, 0) || pthread_join(short_one, 0)))
            wrong = 3;
    }
    for (int i = 0; i < n; i++)
        pthread_join(t[i], 0);
    printf("wrong %d\n", wrong);
    return wrong;
}
