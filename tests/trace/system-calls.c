/* Makes system calls of all kinds, one thread or process at a time, so that the order is the same each time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define NI __attribute__((noinline, noclone))

static int ends[2];

static void handler(int signal) {
    (void)signal;
    write(ends[1], "y", 1);
}

NI int save(int descriptor, int times) {
    int sum = 0;
    for (int i = 0; i < times; i++) sum += write(descriptor, "abcdef", i + 1);
    __asm__ volatile("");
    return sum;
}

NI int load(int descriptor) {
    char bytes[64];
    int got = read(descriptor, bytes, sizeof bytes);
    __asm__ volatile("");
    return got;
}

NI static void *thread(void *unused) {
    for (int i = 0; i < 50; i++) syscall(SYS_getppid);
    return unused;
}

static void interrupted(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &timer, 0);
    /* It's empty until the handler has written to it. */
    load(ends[0]);
}

int main(int count, char **arguments) {
    if (count > 1) return atoi(arguments[1]);
    pipe2(ends, O_CLOEXEC);
    save(ends[1], 6);
    load(ends[0]);
    save(-1, 2);
    open("/nowhere/at/all", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    close(open("/dev/null", O_WRONLY | O_APPEND));
    void *memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    munmap(memory, 8192);
    lseek(ends[0], -5, SEEK_CUR);
    fcntl(ends[0], F_GETFD);
    kill(getpid(), 0);
    interrupted(0);
    load(ends[0]);
    interrupted(SA_RESTART);
    pid_t child = fork();
    if (child == 0) {
        save(ends[1], 2);
        _exit(3);
    }
    waitpid(child, 0, 0);
    child = vfork();
    if (child == 0) {
        execl("/proc/self/exe", "again", "5", (char *)0);
        _exit(1);
    }
    waitpid(child, 0, 0);
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    syscall(5000, 1, 2);
    syscall(SYS_exit_group, 7);
}
