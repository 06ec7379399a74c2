/* Makes system calls that the kernel serves by functions of its own, so many times. With a second argument, does so for
   each byte of input, and prints it then. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NI __attribute__((noinline, noclone))

NI int save(int descriptor, const char *bytes) {
    int wrote = write(descriptor, bytes, 5);
    __asm__ volatile("");
    return wrote;
}

NI int load(int descriptor, char *bytes) {
    int got = read(descriptor, bytes, 5);
    __asm__ volatile("");
    return got;
}

static void work(int times) {
    char bytes[8] = "12345";
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < times; i++) {
        if (load(zero, bytes) != 5 || save(null, bytes) != 5) exit(1);
    }
    close(zero);
    close(null);
}

int main(int count, char **arguments) {
    int times = count > 1 ? atoi(arguments[1]) : 1;
    char byte;
    if (count > 2) {
        while (read(0, &byte, 1) == 1) {
            work(times);
            if (write(1, &byte, 1) != 1) return 1;
        }
        return 0;
    }
    work(times);
    /* What a process makes is followed. */
    pid_t child = fork();
    if (child == 0) {
        work(10);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return 0;
}
