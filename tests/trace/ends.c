/* Ends in the way that its argument says, with calls under way. */
#include "hits.h"
#include <pthread.h>
#include <signal.h>
TRUTH()
static const char *how;
NI static int fall(int n) {
    HIT();
    if (n) {
        int r = fall(n - 1);
        __asm__ volatile("" : "+r"(r));
        return r;
    }
    if (!strcmp(how, "return"))
        return 7;
    if (!strcmp(how, "stop")) {
        raise(SIGSTOP);
        return 9;
    }
    truth_();
    if (!strcmp(how, "_exit"))
        _exit(200);
    if (!strcmp(how, "abort"))
        abort();
    raise(atoi(how));
    return 11;
}
NI static void *thread(void *p) {
    HIT();
    (void)p;
    for (;;)
        usleep(1000);
    return 0;
}
int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "return";
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    usleep(2000);
    printf("%s\n", how);
    fflush(stdout);
    return fall(10);
}
