// Functions of which it's known how many instructions they execute: spin(n) does 2n and a few more, wherever it's called.
//
// Argument: anything, for many threads.

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

static jmp_buf back;

ALONE static void spin(unsigned long turns) {
#if defined __x86_64__
    __asm__ volatile("1: sub $1, %0\n\tjnz 1b" : "+r"(turns));
#elif defined __aarch64__
    __asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(turns));
#elif defined __riscv
    __asm__ volatile("1: addi %0, %0, -1\n\tbnez %0, 1b" : "+r"(turns));
#endif
}

ALONE static void twice(unsigned long turns) {
    spin(turns);
    spin(2 * turns);
    __asm__ volatile("");
}

ALONE static void last(unsigned long turns) {
    spin(turns);
}

ALONE static void down(unsigned levels) {
    if (levels)
        down(levels - 1);
    spin(500);
    __asm__ volatile("");
}

ALONE static void leave(void) {
    spin(1000);
    longjmp(back, 1);
}

ALONE static void enter(void) {
    if (!setjmp(back))
        leave();
    spin(1000);
    __asm__ volatile("");
}

static void *in_thread(void *unused) {
    twice(3000);
    return unused;
}

static void *one_spin(void *unused) {
    spin(1000);
    return unused;
}

// 400 threads, one after the other; then how many files are open, and how many mappings there are.
static int threads(void) {
    for (int number = 0; number < 400; number++) {
        pthread_t thread;
        pthread_create(&thread, 0, one_spin, 0);
        pthread_join(thread, 0);
    }
    int files = 0, maps = 0, byte;
    for (int file = 0; file < 1000; file++)
        files += fcntl(file, F_GETFD) != -1;
    FILE *list = fopen("/proc/self/maps", "r");
    while ((byte = getc(list)) != EOF)
        maps += byte == '\n';
    printf("%d %d\n", files, maps);
    return 0;
}

int main(int count, char **words) {
    if (count > 1)
        return threads();
    spin(1000);
    spin(1000000);
    twice(1000);
    last(2000);
    down(3);
    enter();
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, 0);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (child == 0) {
        twice(4000);
        _exit(0);
    }
    waitpid(child, 0, 0);
    for (int turn = 0; turn < 20000; turn++)
        spin(7);
    return 0;
}
