/* vfork, posix_spawn, system, popen: of programs with hooks (this one) and without. */
#include "hits.h"
#include <spawn.h>
#include <sys/wait.h>
TRUTH()
extern char **environ;
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int in_child(int n) {
    HIT();
    return leaf(n);
}
NI static int ended(pid_t child) {
    HIT();
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
NI static int by_vfork(const char *self, int code) {
    HIT();
    char number[] = {'0' + code, 0};
    char *arguments[] = {(char *)self, number, 0};
    volatile int calls = 0;
    pid_t child = vfork();
    if (child == 0) {
        /* These count in the parent's memory, and are the child's calls: so they have no HIT. */
        calls++;
        execv(self, arguments);
        _exit(99);
    }
    return ended(child) * 10 + calls;
}
NI static int by_spawn(const char *program, char *argument) {
    HIT();
    char *arguments[] = {(char *)program, argument, 0};
    pid_t child;
    if (posix_spawn(&child, program, 0, 0, arguments, environ))
        return -2;
    return ended(child);
}
int main(int argc, char **argv) {
    if (argc > 1)
        return in_child(atoi(argv[1]));
    printf("%d\n", by_vfork("/proc/self/exe", 4));
    printf("%d\n", by_spawn("/proc/self/exe", (char *)"6"));
    printf("%d\n", by_spawn("/bin/true", 0));
    printf("%d\n", by_spawn("/nonexistent/program", 0));
    printf("%d\n", system("exit 3"));
    fflush(stdout);
    FILE *pipe = popen("echo from a shell", "r");
    char line[64] = "";
    if (pipe && fgets(line, sizeof line, pipe))
        printf("%s", line);
    printf("%d\n", pipe ? pclose(pipe) : -1);
    return leaf(0);
}
