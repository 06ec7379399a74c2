/* Deletes the trace that is being written, then replaces itself by itself: the new program's calls belong there too. */
#include "hits.h"
TRUTH()
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 100; i++)
        leaf(i);
    if (argc < 2) {
        printf("again\n");
        return 42;
    }
    unlink(argv[1]);
    truth_();
    execl("/proc/self/exe", argv[0], (char *)0);
    return 99;
}
