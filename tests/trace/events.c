// Does what the kernel has events of, and says how often. Two threads on one processor send each other a byte, `rounds` times; then one
// touches pages that weren't touched before.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 64 };

static int there[2], back[2];
static int rounds;

static void stay(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    int first = 0;
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *pong(void *unused)
{
    (void)unused;
    stay();
    prctl(PR_SET_NAME, "pong");
    printf("pong %ld\n", syscall(SYS_gettid));
    fflush(stdout);
    char byte;
    while (read(there[0], &byte, 1) == 1)
        if (write(back[1], &byte, 1) != 1)
            abort();
    return NULL;
}

int main(int count, char **arguments)
{
    rounds = count > 1 ? atoi(arguments[1]) : 100;
    if (pipe(there) || pipe(back))
        return 1;
    printf("ping %ld\n", syscall(SYS_gettid));
    fflush(stdout);
    pthread_t thread;
    stay();
    pthread_create(&thread, NULL, pong, NULL);
    for (int round = 0; round < rounds; round++) {
        char byte = 'x';
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 1;
    }
    close(there[1]);
    pthread_join(thread, NULL);

    long size = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, PAGES * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, PAGES * size, MADV_NOHUGEPAGE);
    for (int page = 0; page < PAGES; page++)
        *(volatile char *)(pages + page * size) = 1;
    printf("pages %p %d %ld\n", (void *)pages, PAGES, size);

    signal(SIGUSR1, SIG_IGN);
    for (int number = 0; number < 7; number++)
        raise(SIGUSR1);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status;
    waitpid(child, &status, 0);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("faults %ld\n", used.ru_minflt + used.ru_majflt);
    return WEXITSTATUS(status);
}
