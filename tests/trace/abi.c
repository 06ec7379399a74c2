/* Everything that a calling convention hands over: floating point in variadic calls, results in two registers,
 * in memory, in vectors and on the x87 stack, the static chain, errno, the rounding mode. */
#include "hits.h"
#include <complex.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdarg.h>
TRUTH()

struct pair { long a, b; };
struct mixed { double a; long b; };
struct twins { double a, b; };
struct small { char c[3]; };
struct large { long v[20]; };

NI static double variadic(int n, ...) {
    HIT();
    va_list list;
    va_start(list, n);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += va_arg(list, double) * va_arg(list, int);
    va_end(list);
    return sum;
}
NI static struct pair pair(long a) { HIT(); return (struct pair){a, ~a}; }
NI static struct mixed mixed(double a) { HIT(); return (struct mixed){a, 7}; }
NI static struct twins twins(double a) { HIT(); return (struct twins){a, -a}; }
NI static struct small small(int a) { HIT(); return (struct small){{a, a + 1, a + 2}}; }
NI static struct large large(long a) {
    HIT();
    struct large r;
    for (int i = 0; i < 20; i++)
        r.v[i] = a * i;
    return r;
}
NI static long double extended(long double a) { HIT(); return a / 3; }
NI static long double _Complex both(long double a) { HIT(); return a + 2 * a * I; }
#if defined __i386__ || defined __arm__
typedef long long two_words;
#else
typedef __int128 two_words;
#endif
NI static two_words wide(two_words a) { HIT(); return a * a; }
NI static double many(double a, double b, double c, double d, double e, double f, double g, double h,
                      double i, double j) {
    HIT();
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}
NI static long ints(long a, long b, long c, long d, long e, long f, long g, long h) {
    HIT();
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
NI static int keeps_errno(int n) { HIT(); return errno + n; }
NI static double thirds(double a) { HIT(); return a / 3; }
NI static int carries(int n) { HIT(); return n; }

#ifdef __AVX2__
typedef double vector __attribute__((vector_size(32)));
typedef long longs __attribute__((vector_size(32)));
NI static vector add(vector a, vector b, vector c, vector d, vector e, vector f, vector g, vector h) {
    HIT();
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
NI static longs shift(longs a) { HIT(); return a << 3; }
static void vectors(void) {
    vector v = {1, 2, 3, 4}, r = add(v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7);
    longs s = shift((longs){1, 2, 3, 4});
    printf("vectors %g %g %g %g %ld %ld\n", r[0], r[1], r[2], r[3], s[0], s[3]);
}
#else
static void vectors(void) {}
#endif

#ifdef NESTED
NI static int apply(int (*f)(int), int n) { HIT(); return f(n); }
NI static int chain(int base) {
    HIT();
    __attribute__((noinline)) int inner(int n) { HIT(); base += n; return base; }
    int direct = inner(1);
    return direct + apply(inner, 10) + base;
}
#else
static int chain(int base) { return 3 * base; }
#endif

static void *all(void *p) {
    (void)p;
    /* In a new thread, the first call takes the slowest path of the tracer. */
    errno = 77;
    printf("errno %d", keeps_errno(0));
    printf(" %d\n", errno);
    printf("variadic %g %g\n", variadic(3, 1.5, 2, 2.5, 3, 3.5, 4), variadic(0));
    struct pair p1 = pair(5);
    struct mixed m = mixed(1.25);
    struct twins t = twins(2.5);
    struct small s = small(1);
    struct large l = large(3);
    printf("structs %ld %ld %g %ld %g %g %d %d %ld\n", p1.a, p1.b, m.a, m.b, t.a, t.b, s.c[0],
           s.c[2], l.v[19]);
    long double _Complex b = both(1.5L);
    printf("x87 %.18Lg %.18Lg %.18Lg\n", extended(10), creall(b), cimagl(b));
    printf("wide %lx\n", (long)(wide((two_words)1 << (sizeof(long) * 8 - 4)) >> (sizeof(long) * 8)));
    printf("many %g %ld\n", many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ints(1, 2, 3, 4, 5, 6, 7, 8));
    fesetround(FE_UPWARD);
    double up = thirds(1);
    feraiseexcept(FE_DIVBYZERO);
    carries(1);
    int kept = fegetround() == FE_UPWARD && fetestexcept(FE_DIVBYZERO);
    feclearexcept(FE_ALL_EXCEPT);
    carries(2);
    kept += 2 * !fetestexcept(FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
    printf("rounding %a %a %d\n", up, thirds(1), kept);
    vectors();
    printf("chain %d\n", chain(100));
    return 0;
}
/* The first call that a new thread makes takes the slowest path of the tracer at its entry. */
QUIET static void *first(void *p) {
    double sum = 0;
    switch ((long)p) {
    case 0: sum = variadic(3, 1.5, 2, 2.5, 3, 3.5, 4); break;
    case 1: sum = many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10); break;
    case 2: sum = ints(1, 2, 3, 4, 5, 6, 7, 8); break;
    case 3: sum = mixed(1.25).a + twins(2.5).b; break;
    case 4: sum = extended(10); break;
#ifdef __AVX2__
    case 5: {
        vector v = {1, 2, 3, 4}, r = add(v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7);
        sum = r[0] + 2 * r[1] + 3 * r[2] + 4 * r[3];
    }
#endif
    }
    printf("first %ld %.15g\n", (long)p, sum);
    return 0;
}

/* Every few thousand calls, an exit finds its buffer full. */
QUIET static void often(void) {
    int wrong = 0;
    for (long i = 1; i < 9000; i++) {
        struct pair p = pair(i);
        struct mixed m = mixed(i);
        struct twins t = twins(i);
        long double _Complex b = both(i);
        wrong += p.a != i || p.b != ~i || m.a != i || m.b != 7 || t.a != i || t.b != -i;
        wrong += creall(b) != i || cimagl(b) != 2 * i || extended(3 * i) != i;
        wrong += wide(i) != (two_words)i * i;
    }
    printf("wrong %d\n", wrong);
}

int main(void) {
    pthread_t t;
    for (long i = 0; i < 6; i++) {
        pthread_create(&t, 0, first, (void *)i);
        pthread_join(t, 0);
    }
    often();
    all(0);
    pthread_create(&t, 0, all, 0);
    pthread_join(t, 0);
    return 0;
}
