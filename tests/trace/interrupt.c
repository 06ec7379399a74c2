/* Waits for SIGINT; with an argument it handles it, and ends in an orderly way. */
#include "hits.h"
#include <signal.h>
TRUTH()
static volatile sig_atomic_t stop;
NI static void on_interrupt(int s) {
    HIT();
    stop = s;
}
NI static void wait_for_it(void) {
    HIT();
    /* So its call has begun when the signal comes. */
    printf("ready\n");
    fflush(stdout);
    while (!stop)
        usleep(1000);
}
int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        signal(SIGINT, on_interrupt);
    wait_for_it();
    printf("interrupted\n");
    return 5;
}
