/* Calls one function millions of times a second, and another one a hundredth as often. A line on standard input asks how often: nanoseconds,
 * and the calls of each. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static uint64_t rounds;

/* Some 60 ns: each step needs the last one's result. */
__attribute__((noinline)) uint64_t often(uint64_t number)
{
    for (int i = 0; i < 48; i++)
        number = number * 6364136223846793005u + 1442695040888963407u;
    return number;
}

__attribute__((noinline)) uint64_t seldom(uint64_t number)
{
    return often(number) ^ number >> 7;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000u + time.tv_nsec;
}

int main(void)
{
    uint64_t number = 1;
    char line[64];
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 100; i++) {
            for (int k = 0; k < 99; k++)
                number = often(number);
            number = seldom(number);
        }
        rounds += 100;
        struct pollfd input = { .fd = 0, .events = POLLIN };
        if (poll(&input, 1, 0) == 0)
            continue;
        if (!fgets(line, sizeof line, stdin))
            return number == 0;
        printf("%ju %ju %ju\n", (uintmax_t)now(), (uintmax_t)rounds * 100, (uintmax_t)rounds);
        fflush(stdout);
    }
}
