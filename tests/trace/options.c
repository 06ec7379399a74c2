/* Calls in each other, by longjmp and by tail calls: for the options that say which of them are recorded. */
#include <setjmp.h>
#include <stdio.h>
#define NI __attribute__((noinline))
static jmp_buf back;
static volatile int sink;
NI int leaf(int n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
NI int mid(int n) {
    int r = leaf(n) + leaf(n + 1);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI int other(int n) {
    int r = mid(n) + leaf(1);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI void leap(int n) {
    if (!n)
        longjmp(back, 1);
    leap(n - 1);
    __asm__ volatile("");
}
NI int fib(int n) {
    int r = n < 2 ? n : fib(n - 1) + fib(n - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI int second(int n) {
    sink = n;
    return n;
}
NI int first(int n) { return second(n + 1); }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        sum += other(i);
        if (!setjmp(back))
            leap(3);
        sum += mid(i);
    }
    sum += first(3) + fib(5);
    printf("%d\n", sum);
    return 0;
}
