/* Closes all descriptors and lowers its limits, then goes on to make calls, threads and children. */
#include "hits.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
TRUTH()
NI static int work(int n) {
    HIT();
    int r = n < 2 ? n : work(n - 1) + work(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI static void *thread(void *p) {
    HIT();
    return (void *)(long)work((int)(long)p);
}
static void limit(int what, rlim_t most) {
    struct rlimit value = {most, most};
    setrlimit(what, &value);
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    FILE *truth = fopen(getenv("TRUTH") ? getenv("TRUTH") : "/dev/null", "a");
    if (!strcmp(what, "descriptors"))
        for (int i = 3; i < 1024; i++)
            if (i != fileno(truth))
                close(i);
    if (!strcmp(what, "files"))
        limit(RLIMIT_FSIZE, 4096);
    if (!strcmp(what, "open"))
        limit(RLIMIT_NOFILE, 3);
    /* The program's own needs, and 64 MiB. The tracer's shadows have to fit in, or calls are lost. */
    if (!strcmp(what, "memory")) {
        long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file && fscanf(file, "%ld", &pages) == 1)
            limit(RLIMIT_AS, pages * 4096 + (64 << 20));
    }
    if (!strcmp(what, "processes"))
        limit(RLIMIT_NPROC, 1);
    if (!strcmp(what, "root") && (chroot("/proc/self/fdinfo") || chdir("/")))
        return 3;
    pthread_t t;
    void *result = 0;
    int made = pthread_create(&t, 0, thread, (void *)18);
    if (made == 0)
        pthread_join(t, &result);
    pid_t child = fork();
    if (child == 0)
        _exit(work(10));
    int status = 0;
    if (child > 0)
        waitpid(child, &status, 0);
    printf("%d %d %ld %d %d\n", work(20), made, (long)result, child > 0, WEXITSTATUS(status));
    fflush(stdout);
    for (int i = 0; i < 64 && hits_[i].name; i++)
        fprintf(truth, "%d %s %lu\n", (int)getpid(), hits_[i].name, hits_[i].count);
    fclose(truth);
    _exit(0);
}
