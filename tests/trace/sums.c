/* Functions that are called so often, for compilers that add something to them: leaf 1000 times, middle 100 times. With an argument,
 * it waits for a line first. A fuzzer has a `main` of its own, and calls something else. */
#include <stdio.h>
__attribute__((noinline)) long leaf(long n) {
    __asm__ volatile("");
    return n + 1;
}
__attribute__((noinline)) long middle(long n) {
    long sum = 0;
    for (int i = 0; i < 10; i++)
        sum += leaf(i + n);
    return sum;
}
static void sums(void) {
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += middle(i);
    printf("%ld\n", sum);
    fflush(stdout);
}
static void wait(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        puts("no line");
}
#ifdef FUZZER
#include <stdlib.h>
#include <unistd.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
    static int is_done;
    (void)data, (void)size;
    if (!is_done && getenv("SERVED"))
        wait();
    if (!is_done)
        sums();
    is_done = 1;
    _exit(0);
}
#else
int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1)
        wait();
    sums();
    return 0;
}
#endif
