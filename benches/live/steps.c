/* Runs a program and counts its instructions from its first SIGUSR1 to its second: one step each. valgrind has no room for the
 * addresses that tracing reserves. */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2)
        return 2;
    pid_t program = fork();
    if (program == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    long steps = 0;
    int status, is_counting = 0, signal = 0;
    waitpid(program, &status, 0);
    for (;;) {
        ptrace(is_counting ? PTRACE_SINGLESTEP : PTRACE_CONT, program, 0, signal);
        signal = 0;
        if (waitpid(program, &status, 0) < 0 || !WIFSTOPPED(status))
            return 0;
        if (WSTOPSIG(status) == SIGUSR1) {
            if (is_counting)
                printf("%ld instructions\n", steps);
            is_counting = !is_counting;
        } else if (is_counting && WSTOPSIG(status) == SIGTRAP) {
            steps++;
        } else {
            signal = WSTOPSIG(status);
        }
    }
}
