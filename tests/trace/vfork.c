/* Children that share the memory: vfork, whose child runs on its parent's stack with its thread pointer, and
 * clone, whose child runs beside its parent. Process 0 in the truth is any one. */
#include "hits.h"
#include <sched.h>
#include <sys/wait.h>
TRUTH()
static char stack[256 << 10] __attribute__((aligned(64)));
NI static int here(int n) {
    HIT();
    int r = n < 2 ? n : here(n - 1) + here(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static int there(int n) {
    int r = n < 2 ? n : there(n - 1) + there(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static int by_vfork(int n) {
    HIT();
    here(n);
    pid_t child = vfork();
    if (child == 0)
        _exit(there(n) & 127);
    int status;
    waitpid(child, &status, 0);
    here(n);
    return WEXITSTATUS(status);
}
NI static int body(void *p) { return there((int)(long)p) & 127; }
NI static int by_clone(int n) {
    HIT();
    pid_t child = clone(body, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)(long)n);
    int own = here(n) & 127, status;
    waitpid(child, &status, 0);
    return own == WEXITSTATUS(status) ? own : -1;
}
int main(void) {
    printf("%d\n", by_vfork(12));
    /* Several times, so that at least once both run at the same time. */
    for (int i = 0; i < 5; i++)
        printf("%d\n", by_clone(24));
    printf("%d\n", by_vfork(10));
    FILE *truth = fopen(getenv("TRUTH") ? getenv("TRUTH") : "/dev/null", "a");
    /* 2 * fib(n + 1) - 1 each. */
    fprintf(truth, "0 there %d\n0 body 5\n", 465 + 5 * 150049 + 177);
    fclose(truth);
    return 0;
}
