/* An exception that nobody catches: std::terminate finds the frames as they were when it was thrown. */
#include "hits.h"
#include <exception>
#include <execinfo.h>
TRUTH()

NI static void ended() {
    HIT();
    void *frames[256];
    int n = backtrace(frames, 256), bad = 0;
    for (int i = 0; i < n; i++)
        bad += !frames[i];
    /* 100 of fall, and what is around them. Two for each if frames of the tracer are between. */
    printf("terminate %d %d\n", n > 100, bad);
    fflush(stdout);
    truth_();
    abort();
}
NI int fall(int n) {
    HIT();
    if (n == 0)
        throw n;
    int r = fall(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
int main() {
    std::set_terminate(ended);
    return fall(99);
}
