/* Parent and child call at once, at the same depth of the same stack; grandchildren too. */
#include "hits.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
TRUTH()
static int ready[2], go[2];
NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static void meet(int n) {
    HIT();
    char c;
    if (n) {
        meet(n - 1);
        __asm__ volatile("");
        return;
    }
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        CHILD();
        if (write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 1)
            LEAVE(9);
        for (int i = 0; i < 30; i++)
            if (work(14) != 377)
                LEAVE(8);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHILD();
            LEAVE(work(10) == 55 ? 5 : 6);
        }
        int status;
        waitpid(grandchild, &status, 0);
        LEAVE(WEXITSTATUS(status));
    }
    if (read(ready[0], &c, 1) != 1 || write(go[1], "g", 1) != 1)
        exit(9);
    for (int i = 0; i < 30; i++)
        if (work(14) != 377)
            exit(8);
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}
int main(void) {
    if (pipe(ready) || pipe(go))
        return 2;
    work(5);
    meet(10);
    meet(3);
    return 0;
}
