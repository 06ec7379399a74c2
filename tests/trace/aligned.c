/* Functions whose prologue aligns the stack, each in another way: to reach its arguments, some have a register lead to where the stack
 * pointer was before. */
#include "hits.h"
#include <alloca.h>
#include <execinfo.h>
TRUTH()
#define ALIGNED __attribute__((aligned(64))) volatile
#define IS_ALIGNED(what) ((unsigned long)(what) % 64 == 0)
NI static int leaf(int n) {
    HIT();
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
NI static int local(int n) {
    HIT();
    ALIGNED int all[16];
    all[n & 15] = leaf(n);
    return all[n & 15] + IS_ALIGNED(all);
}
NI static int dynamic(int n) {
    HIT();
    ALIGNED int all[16];
    volatile char *more = alloca(n + 1);
    more[n] = 1;
    all[n & 15] = leaf(n) + more[n];
    return all[n & 15] + IS_ALIGNED(all);
}
NI static long arguments(long a, long b, long c, long d, long e, long f, long g, long h) {
    HIT();
    ALIGNED long all[8] = {a, b, c, d, e, f, g, h};
    volatile char *more = alloca(a + 1);
    more[a] = 1;
    long sum = IS_ALIGNED(all) + more[a] + leaf(0);
    for (int i = 0; i < 8; i++)
        sum += (i + 1) * all[i];
    return sum + g * h;
}
NI static int large(int n) {
    HIT();
    ALIGNED char all[20000];
    volatile char *more = alloca(n + 1);
    more[n] = all[n] = 1;
    return leaf(all[n]) + more[n] + IS_ALIGNED(all);
}
struct big {
    long words[40];
};
NI static struct big result(int n) {
    HIT();
    ALIGNED struct big all;
    volatile char *more = alloca(n + 1);
    more[n] = 1;
    for (int i = 0; i < 40; i++)
        all.words[i] = i + leaf(n) + more[n];
    return *(struct big *)&all;
}
NI static int recursive(int n) {
    HIT();
    ALIGNED int all[16];
    volatile char *more = alloca(n + 1);
    more[n] = 1;
    all[n & 15] = n ? recursive(n - 1) + more[n] : 0;
    return all[n & 15] + IS_ALIGNED(all);
}
__attribute__((force_align_arg_pointer, noinline)) static int forced(int n) {
    HIT();
    volatile char *more = alloca(n + 1);
    more[n] = 1;
    return leaf(n) + more[n];
}
NI static int tail(int n) {
    HIT();
    ALIGNED int all[16];
    volatile char *more = alloca(n + 1);
    more[n] = all[n & 15] = 1;
    return recursive(all[n & 15] + more[n]);
}
#if defined(__AVX__)
typedef double vector __attribute__((vector_size(32)));
NI static vector spilled(vector a, int n) {
    HIT();
    volatile vector kept = a;
    volatile char *more = alloca(n + 1);
    more[n] = 1;
    return kept + leaf(n) * a + more[n];
}
#endif
#ifndef __clang__
NI static int chained(int n) {
    HIT();
    int sum = 0;
    /* Its static chain is where the pointer would be. */
    NI void inner(int m) {
        HIT();
        ALIGNED int all[16];
        volatile char *more = alloca(m + 1);
        more[m] = 1;
        all[m & 15] = leaf(m) + more[m];
        sum += all[m & 15] + IS_ALIGNED(all);
    }
    for (int i = 0; i < n; i++)
        inner(i);
    return sum;
}
#endif
int main(void) {
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        sum += local(i) + dynamic(i) + arguments(i, 2, 3, 4, 5, 6, 7, i) + large(i) + forced(i);
        sum += result(i).words[i] + recursive(i) + tail(i) + leaf(i);
#ifndef __clang__
        sum += chained(i);
#endif
#if defined(__AVX__)
        sum += spilled((vector){i, 1, 2, 3}, i)[i & 3];
#endif
    }
    printf("%ld\n", sum);
    return 0;
}
