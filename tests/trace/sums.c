/* Functions that are called so often, for compilers that add something to them: leaf 1000 times, middle 100 times. */
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
int main(void) {
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += middle(i);
    printf("%ld\n", sum);
    return 0;
}
