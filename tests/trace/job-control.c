/* What a shell does: a child stops, is continued, and is killed, and its parent is told of each. */
#include "hits.h"
#include <signal.h>
#include <sys/wait.h>
TRUTH()
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static void show(const char *what, int status) {
    HIT();
    printf("%s stopped %d continued %d exited %d signalled %d\n", what,
           WIFSTOPPED(status) ? WSTOPSIG(status) : 0, WIFCONTINUED(status),
           WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    fflush(stdout);
}
NI static void one(int how) {
    HIT();
    int status = 0, go[2];
    char byte = 0;
    if (pipe(go))
        abort();
    pid_t child = fork();
    if (child == 0) {
        CHILD();
        leaf(1);
        raise(how);
        /* That it was continued can only be seen as long as it lives. */
        if (read(go[0], &byte, 1) != 1)
            abort();
        leaf(2);
        LEAVE(6);
    }
    waitpid(child, &status, WUNTRACED);
    show("first", status);
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    show("second", status);
    if (write(go[1], &byte, 1) != 1)
        abort();
    waitpid(child, &status, 0);
    show("third", status);
    child = fork();
    if (child == 0) {
        CHILD();
        for (;;)
            pause();
    }
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    show("stopped", status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    show("killed", status);
}
int main(void) {
    one(SIGSTOP);
    one(SIGTSTP);
    return 0;
}
