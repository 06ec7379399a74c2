/* 4096 functions, each called once: more than one chunk of names, and code of many pages. */
#include "hits.h"
TRUTH()

#define ONE(n) \
    NI static int function_##n(int a) { __asm__ volatile("" : "+r"(a)); return a + 0x##n; }
#define CALL(n) sum += function_##n(1);
#define BY_16(M, n)                                                                            \
    M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9) M(n##a)    \
    M(n##b) M(n##c) M(n##d) M(n##e) M(n##f)
#define BY_256(M, n)                                                                           \
    BY_16(M, n##0) BY_16(M, n##1) BY_16(M, n##2) BY_16(M, n##3) BY_16(M, n##4) BY_16(M, n##5)  \
    BY_16(M, n##6) BY_16(M, n##7) BY_16(M, n##8) BY_16(M, n##9) BY_16(M, n##a) BY_16(M, n##b)  \
    BY_16(M, n##c) BY_16(M, n##d) BY_16(M, n##e) BY_16(M, n##f)
#define ALL(M)                                                                                 \
    BY_256(M, 0) BY_256(M, 1) BY_256(M, 2) BY_256(M, 3) BY_256(M, 4) BY_256(M, 5)              \
    BY_256(M, 6) BY_256(M, 7) BY_256(M, 8) BY_256(M, 9) BY_256(M, a) BY_256(M, b)              \
    BY_256(M, c) BY_256(M, d) BY_256(M, e) BY_256(M, f)

ALL(ONE)

int main(void)
{
    HIT();
    int sum = 0;
    ALL(CALL)
    printf("%d\n", sum);
    return 0;
}
