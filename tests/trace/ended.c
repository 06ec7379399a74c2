// Threads that end by pthread_exit, and children that end by _exit, within calls. Between them is time.
//
// A line with anything is answered, and then the program ends.

#include <pthread.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNHOOKED __attribute__((noinline, patchable_function_entry(0, 0)))

__attribute__((noinline)) static void leaf(void) {
    __asm__ volatile("");
}

__attribute__((noinline)) static void *thread_body(void *unused) {
    for (int turn = 0; turn < 100; turn++)
        leaf();
    pthread_exit(unused);
}

__attribute__((noinline)) static void child_body(void) {
    leaf();
    _exit(0);
}

UNHOOKED static void one(void) {
    pthread_t thread;
    pthread_create(&thread, 0, thread_body, 0);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (child == 0)
        child_body();
    waitpid(child, 0, 0);
    usleep(50000);
}

UNHOOKED int main(int count, char **words) {
    if (count > 1) {
        for (int turn = 0; turn < 10; turn++)
            one();
        return 0;
    }
    puts("ready");
    fflush(stdout);
    fd_set set;
    for (;;) {
        struct timeval none = {0, 0};
        FD_ZERO(&set);
        FD_SET(0, &set);
        if (select(1, &set, 0, 0, &none))
            return 0;
        one();
    }
}
