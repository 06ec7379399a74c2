/* vfork with calls in the child, which runs on its parent's stack, in its parent's memory. */
#include "hits.h"
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
TRUTH()
static char stack[256 << 10] __attribute__((aligned(64)));
NI int work(int n) {
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI int parent(int n) {
    HIT();
    pid_t child = vfork();
    if (child == 0)
        _exit(work(n) & 127);
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
NI int body(void *p) { return work((int)(long)p) & 127; }
/* A process of its own that shares the memory and runs at the same time. */
NI int parallel(int n) {
    HIT();
    pid_t child = clone(body, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)(long)n);
    int own = work(n) & 127, status;
    waitpid(child, &status, 0);
    return own == WEXITSTATUS(status) ? own : -1;
}
int main(void) {
    printf("%d\n", parent(12));
    printf("%d\n", parallel(15));
    printf("%d\n", parent(10));
    return 0;
}
