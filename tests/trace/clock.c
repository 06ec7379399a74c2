/* Prints what CLOCK_MONOTONIC is, in nanoseconds, a while before and a while after each of some calls. */
#include <stdio.h>
#include <time.h>

__attribute__((noinline)) void timed(int n)
{
    __asm__ volatile("" : : "r"(n));
}

__attribute__((noinline, patchable_function_entry(0, 0), no_instrument_function)) static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
    struct timespec while_ = {0, 5000000};
    for (int i = 0; i < 20; i++) {
        printf("%lld ", now());
        nanosleep(&while_, 0);
        timed(i);
        nanosleep(&while_, 0);
        printf("%lld\n", now());
    }
    return 0;
}
