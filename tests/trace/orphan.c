/* A process is killed while it makes another one, which goes on by itself. */
#include "hits.h"
#include <fcntl.h>
#include <sys/wait.h>
TRUTH()
NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
QUIET static void make(void) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (access("go", F_OK))
        usleep(1000);
    if (fork())
        pause();
    CHILD();
    LEAVE(work(15) != 610);
}
QUIET int main(void) {
    int ends[2], status;
    char byte;
    if (pipe(ends))
        return 2;
    pid_t maker = fork();
    if (!maker)
        make();
    close(ends[1]);
    if (waitpid(maker, &status, 0) != maker || !WIFSIGNALED(status))
        return 3;
    /* Ends when the last one that has it does. */
    while (read(ends[0], &byte, 1) > 0)
        ;
    return work(10) == 55 ? 0 : 4;
}
