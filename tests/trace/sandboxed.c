/* Answers lines as served.c does, but makes no system calls for that but read and write: whatever its sandbox forbids, it only
 * matters to those who have it do something else. */
#include "hits.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
TRUTH()
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int deep(int n) {
    HIT();
    return n ? deep(n - 1) + leaf(n) : 0;
}
NI static long work(int n) {
    HIT();
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i);
    return sum + deep(100);
}
QUIET int main(void) {
    struct sock_filter all[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof all / sizeof *all, all};
    char line[400];
    alarm(1000);
    if (write(1, "ready\n", 6) != 6)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 2;
    while (read(0, line, sizeof line) > 0) {
        if (work(1000) != 500500 + 5150)
            _exit(3);
        int size = 0;
        for (int i = 0; i < 64 && hits_[i].name; i++, hits_[i - 1].count = 0)
            size += snprintf(line + size, sizeof line - size, "%s %lu ", hits_[i].name, hits_[i].count);
        line[size++] = '\n';
        if (write(1, line, size) != size)
            _exit(4);
    }
    _exit(7);
}
