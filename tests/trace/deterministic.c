/* Does the same in each run: recursion, calls by pointers, tail calls, functions that jump back to their beginning or begin with a call, and
 * sorting by a library. What calls what is for others to count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NI __attribute__((noinline))
static unsigned seed = 1;
unsigned total;

NI unsigned next(void) {
    return seed = seed * 1103515245u + 12345u;
}
NI unsigned begins_with_call(void) {
    return next() % 7 + 1;
}
NI unsigned ackermann(unsigned m, unsigned n) {
    if (!m)
        return n + 1;
    return ackermann(m - 1, n ? ackermann(m, n - 1) : 1);
}
NI unsigned collatz(unsigned n) {
    unsigned steps = 0;
    do {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    } while (n != 1);
    return steps;
}
NI unsigned odd(unsigned n);
NI unsigned even(unsigned n) {
    __asm__ volatile("");
    return n ? odd(n - 1) : 1;
}
NI unsigned odd(unsigned n) {
    __asm__ volatile("");
    return n ? even(n - 1) : 0;
}
NI int compare(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}
NI void visit(unsigned (*of)(unsigned), unsigned n) {
    for (unsigned i = 1; i < n; i++)
        total += of(i);
}
int main(void) {
    unsigned all[300];
    for (int i = 0; i < 300; i++)
        all[i] = next() >> 8;
    qsort(all, 300, sizeof *all, compare);
    for (int i = 0; i < 50; i++)
        total += begins_with_call() + all[i];
    total += ackermann(2, 9);
    visit(collatz, 100);
    visit(even, 40);
    visit(odd, 30);
    printf("%u\n", total);
    return 0;
}
