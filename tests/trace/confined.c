/* Forbids itself most system calls, as sandboxes do, and goes on to make calls. */
#include "hits.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
TRUTH()
NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
/* 20 pages of stack: a new piece of it. */
NI static int far(int n) {
    HIT();
    volatile char pad[200000];
    pad[n] = n;
    int r = work(n) + pad[n] - n;
    __asm__ volatile("" : "+r"(r));
    return r;
}
int main(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    char line[64];
    FILE *truth = fopen(getenv("TRUTH") ? getenv("TRUTH") : "/dev/null", "a");
    static char buffer[4096];
    setvbuf(truth, buffer, _IOFBF, sizeof buffer);
    int id = getpid();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
        return 2;
    int result = work(20) + far(10);
    int size = snprintf(line, sizeof line, "%d\n", result);
    if (write(1, line, size) != size)
        return 3;
    for (int i = 0; i < 64 && hits_[i].name; i++)
        fprintf(truth, "%d %s %lu\n", id, hits_[i].name, hits_[i].count);
    fflush(truth);
    _exit(0);
}
