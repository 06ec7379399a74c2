/* Leaves a process behind that outlives it and goes on to make calls; what its end was is in a file. */
#include "hits.h"
#include <sys/wait.h>
TRUTH()
NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
int main(void) {
    int pipes[2];
    char c;
    if (pipe(pipes))
        return 2;
    if (fork() == 0) {
        CHILD();
        setsid();
        close(pipes[1]);
        /* Until its parent is gone. */
        int left = read(pipes[0], &c, 1) == 0;
        for (int i = 0; i < 20; i++)
            work(12);
        LEAVE(left ? 0 : 1);
    }
    return work(10) == 55 ? 4 : 1;
}
