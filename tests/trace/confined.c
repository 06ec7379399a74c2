/* Forbids itself most system calls, as sandboxes do, and goes on to make calls. What it forbids, and how, is the argument. */
#include "hits.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
/* As in <linux/filter.h>, <linux/seccomp.h> and, as far as some C libraries don't have it, <sys/prctl.h>. */
struct sock_filter {
    unsigned short code;
    unsigned char if_true, if_false;
    unsigned value;
};
struct sock_fprog {
    unsigned short count;
    struct sock_filter *filter;
};
enum { MODE_STRICT = 1, MODE_FILTER = 2, SET_MODE_FILTER = 1, ALL_THREADS = 1 };
enum { LOAD = 0x20, IS_EQUAL = 0x15, RETURN = 6 };
#define ALLOW 0x7fff0000u
#define KILL 0x80000000u
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
/* Lets these pass, and ends the program for all others; or the other way round. */
#define LIST 20
struct list {
    int is_forbidden, numbers[LIST];
};
QUIET static int confine(const char *how, const struct list *list) {
    struct sock_filter all[LIST + 4];
    int count = 0;
    while (count < LIST && list->numbers[count] >= 0)
        count++;
    all[0] = (struct sock_filter){LOAD, 0, 0, 0};
    for (int i = 0; i < count; i++)
        all[i + 1] = (struct sock_filter){IS_EQUAL, count - i, 0, list->numbers[i]};
    all[count + 1] = (struct sock_filter){RETURN, 0, 0, list->is_forbidden ? ALLOW : KILL};
    all[count + 2] = (struct sock_filter){RETURN, 0, 0, list->is_forbidden ? KILL : ALLOW};
    struct sock_fprog program = {count + 3, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!strcmp(how, "prctl"))
        return prctl(PR_SET_SECCOMP, MODE_FILTER, &program);
    if (!strcmp(how, "syscall-prctl"))
        return syscall(SYS_prctl, PR_SET_SECCOMP, MODE_FILTER, &program);
    int flags = strcmp(how, "all-threads") ? 0 : ALL_THREADS;
    return syscall(SYS_seccomp, SET_MODE_FILTER, flags, &program);
}
static volatile int begun, go, done;
QUIET static void *before(void *result) {
    *(int *)result = work(10);
    begun = 1;
    while (!go)
        ;
    *(int *)result += work(10) + far(10);
    done = 1;
    while (done)
        ;
    return 0;
}
QUIET static void *after(void *result) {
    *(int *)result = work(15) + far(10);
    done = 1;
    while (done)
        ;
    return 0;
}
static int truth;
QUIET static void tell(int id) {
    char text[4096];
    int size = 0;
    for (int i = 0; i < 64 && hits_[i].name; i++)
        size += snprintf(text + size, sizeof text - size, "%d %s %lu\n", id, hits_[i].name, hits_[i].count);
    if (write(truth, text, size) != size)
        abort();
}
QUIET int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "syscall";
    char line[64];
    int id = getpid(), is_child = 0, other = 0, answer;
    pthread_t thread;
    truth = open(getenv("TRUTH") ? getenv("TRUTH") : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0666);
    struct list none = {0, {SYS_write, SYS_exit_group, -1}};
    struct list threads = {0, {SYS_write, SYS_exit_group, SYS_mmap, SYS_mprotect, SYS_clone, SYS_clone3,
                               SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_set_robust_list, SYS_rseq,
                               SYS_madvise, SYS_brk, SYS_getrandom, -1}};
    struct list processes = {0, {SYS_write, SYS_exit_group, SYS_clone, SYS_wait4, SYS_set_robust_list,
                                 SYS_rt_sigprocmask, -1}};
    struct list harmless = {1, {SYS_swapon, -1}};
    struct list harmful = {1, {SYS_tgkill, -1}};
    int result = work(10);
    if (!strcmp(how, "executed")) {
        result += far(10);
    } else if (!strcmp(how, "all-threads")) {
        pthread_create(&thread, 0, before, &other);
        while (!begun)
            ;
        if (confine(how, &none))
            return 2;
        go = 1;
        while (!done)
            ;
    } else if (!strcmp(how, "new-thread")) {
        if (confine(how, &threads) || pthread_create(&thread, 0, after, &other))
            return 2;
        while (!done)
            ;
    } else if (!strcmp(how, "child")) {
        if (confine(how, &processes))
            return 2;
        int child = fork();
        if (!child) {
            CHILD();
            is_child = 1;
        } else if (waitpid(child, &answer, 0) != child || answer) {
            return 3;
        }
    } else if (!strcmp(how, "harmless") || !strcmp(how, "harmless-exec")) {
        if (confine(how, &harmless) || pthread_create(&thread, 0, after, &other))
            return 2;
        while (!done)
            ;
        if (how[8]) {
            tell(id);
            execl("/proc/self/exe", "confined", "executed", (char *)0);
        }
    } else if (!strcmp(how, "harmful-exec")) {
        if (confine(how, &harmful))
            return 2;
        tell(id);
        execl("/proc/self/exe", "confined", "executed", (char *)0);
    } else if (!strcmp(how, "strict")) {
        if (prctl(PR_SET_SECCOMP, MODE_STRICT))
            return 2;
    } else if (!strcmp(how, "twice")) {
        if (confine(how, &harmless) || confine(how, &none))
            return 2;
    } else if (confine(how, &none)) {
        return 2;
    }
    result += other + work(20) + far(10);
    int size = snprintf(line, sizeof line, "%d\n", result);
    if (write(1, line, size) != size)
        return 3;
    tell(is_child ? id + 1 : id);
    if (!strcmp(how, "strict"))
        syscall(SYS_exit, 0);
    _exit(0);
}
