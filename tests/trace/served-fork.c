/* Makes a process when it's told to by a line on its standard input; both work, and it prints how often each function was
 * called for that. The other one stays until the next line, works again, and has to find its results right. */
#include "hits.h"
#include <sys/wait.h>
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
enum { EXPECTED = 500500 + 5150 };

NI static int other(int report, int tell) {
    HIT();
    char byte;
    if (work(1000) != EXPECTED)
        return 1;
    if (write(report, hits_, sizeof hits_) != sizeof hits_)
        return 2;
    if (read(tell, &byte, 1) != 1)
        return 0;
    return work(1000) == EXPECTED ? 0 : 3;
}
QUIET int main(void) {
    char line[16];
    int report[2], tell[2], child = 0, status;
    struct hit theirs[64];
    /* If it hangs, it doesn't for ever. */
    alarm(1000);
    printf("ready\n");
    fflush(stdout);
    if (pipe(report))
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        if (child && (write(tell[1], "x", 1) != 1 || waitpid(child, &status, 0) != child || status)) {
            printf("wrong %d\n", status);
            return 4;
        }
        if (child)
            close(tell[0]), close(tell[1]);
        if (pipe(tell) || work(1000) != EXPECTED)
            return 5;
        child = fork();
        if (!child) {
            CHILD();
            close(tell[1]);
            _exit(other(report[1], tell[0]));
        }
        if (read(report[0], theirs, sizeof theirs) != sizeof theirs)
            return 6;
        for (int i = 0; i < 64 && theirs[i].name; i++) {
            printf("%s %lu ", theirs[i].name, theirs[i].count + hits_[i].count);
            hits_[i].count = 0;
        }
        printf("\n");
        fflush(stdout);
    }
    close(tell[1]);
    waitpid(child, &status, 0);
    return status ? 8 : 7;
}
