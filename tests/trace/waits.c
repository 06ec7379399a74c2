/* Waits deep in calls, for a debugger. */
#include <stdio.h>
#include <unistd.h>
#define NI __attribute__((noinline))
static volatile int is_over;
NI int innermost(int n) {
    printf("ready\n");
    fflush(stdout);
    while (!is_over)
        usleep(1000);
    return n + 3;
}
NI int inner(int n) {
    int r = n ? inner(n - 1) : innermost(n);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
NI int outermost(int n) {
    int r = inner(n);
    __asm__ volatile("" : "+r"(r));
    return r * 2;
}
int main(void) {
    int r = outermost(2);
    printf("%d\n", r);
    return r;
}
