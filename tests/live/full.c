/* There's no more room for a trace: the program runs on, and mcount_close says why calls are missing.
 *
 * full TRACE file-size|disk|closed|killed CALLS [NEXT-TRACE] */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

NI long leaf(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
BARE static void limit(rlim_t bytes)
{
    struct rlimit both;
    CHECK(getrlimit(RLIMIT_FSIZE, &both) == 0);
    both.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &both) == 0);
}
/* Closes all descriptors, and has another file get their numbers. */
BARE static void close_all(void)
{
    for (int i = 3; i < 100; i++)
        close(i);
    CHECK(open("innocent", O_RDWR | O_CREAT | O_TRUNC, 0600) == 3);
    for (int i = 4; i < 100; i++)
        CHECK(dup(3) == i);
}
BARE int main(int argc, char **argv)
{
    CHECK(argc >= 4);
    const char *what = argv[2];
    long calls = atol(argv[3]);
    mcount_tracer *trace = mcount_trace(argv[1]);
    CHECK(trace && mcount_arm(trace, "leaf") == 1);
    if (!strcmp(what, "file-size"))
        limit(1 << 20);
    if (!strcmp(what, "closed"))
        close_all();
    for (long i = 0; i < calls; i++)
        CHECK(leaf(i) == i + 1);
    if (!strcmp(what, "killed"))
        raise(SIGKILL);
    CHECK(mcount_close(trace) == -MCOUNT_FILE);
    fprintf(stderr, "%s\n", mcount_error());
    CHECK(strstr(mcount_error(), "calls were not recorded"));
    CHECK(leaf(1) == 2);
    struct stat innocent;
    CHECK(strcmp(what, "closed") || (fstat(3, &innocent) == 0 && innocent.st_size == 0));
    /* Where there's room, the next one is whole. */
    limit(RLIM_INFINITY);
    CHECK((trace = mcount_trace(argc > 4 ? argv[4] : "next")) && mcount_arm(trace, "leaf") == 1);
    CHECK(leaf(1) == 2);
    CHECK(mcount_close(trace) == 0);
    limit(1000);
    CHECK(!mcount_trace("too-large"));
    limit(RLIM_INFINITY);
    puts("ok");
    return 0;
}
