/* As many calls as the first argument says, of as many threads as the second: small functions, loops and recursion. */
#include <pthread.h>
#include <stdlib.h>
#define NI __attribute__((noinline))
NI int leaf(int x) {
    __asm__ volatile("");
    return x + 1;
}
NI int other_leaf(int x) {
    __asm__ volatile("");
    return x + 2;
}
NI int middle(int x) {
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += leaf(x + i) + other_leaf(i);
    return sum;
}
NI int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
/* 1 + 9 + 25 calls. */
NI int top(int x) { return middle(x) + fib(6); }
NI void *run(void *count) {
    long sum = 0;
    for (long i = 0; i < (long)count; i++)
        sum += top((int)i);
    return (void *)sum;
}
int main(int argc, char **argv) {
    enum { MOST = 64 };
    if (argc < 3)
        return 2;
    int threads = atoi(argv[2]);
    if (threads < 1 || threads > MOST)
        return 2;
    void *count = (void *)(atol(argv[1]) / 35 / threads);
    pthread_t all[MOST];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&all[i], 0, run, count))
            return 2;
    run(count);
    for (int i = 1; i < threads; i++)
        pthread_join(all[i], 0);
    return 0;
}
