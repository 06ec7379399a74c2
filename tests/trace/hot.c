/* One function is called much more often than it can be traced cheaply, others aren't. With an argument it does as many
 * rounds; without, it goes on until its standard input ends. With FORK, it makes a child once its calls are recorded, which
 * does that, and waits. Prints the processor time that it took, in microseconds. With CALLS,
 * the one that's called so often is the C library's. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NI __attribute__((noinline))

NI int hot(int n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
NI int warm(int n) {
    int sum = 0;
    for (int i = 0; i < 10000; i++)
#ifdef CALLS
        sum += labs(i);
#else
        sum += hot(i);
#endif
    return sum + n;
}
NI int rare(int n) {
    int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += warm(i);
    return sum + n;
}
#ifdef FORK
/* Is there a jump where `hot` begins? */
static int is_armed(void) {
#ifdef __aarch64__
    return *(volatile unsigned *)hot >> 26 == 5;
#else
    return *(volatile unsigned char *)hot == 0xe9;
#endif
}
#endif
static int goes_on(int rounds, int n) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return rounds ? n < rounds : !poll(&input, 1, 0);
}
int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 0, sum = 0;
    struct timespec time;
    puts("ready");
    fflush(stdout);
#ifdef FORK
    while (!is_armed())
        poll(0, 0, 1);
    if (fork())
        return wait(0) < 0;
#endif
    for (int n = 0; goes_on(rounds, n); n++)
        sum += rare(n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    printf("%ld\n", time.tv_sec * 1000000 + time.tv_nsec / 1000);
    return sum == 1;
}
