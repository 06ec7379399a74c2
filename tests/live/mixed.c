/* Functions of both instruction sets of 32-bit Arm that call each other, with what stands around hooks: conditions right behind
 * the entry, literals before it, frames of all kinds. Each counts its own calls and checks its own arguments. */
#include "check.h"
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>

#define ARM __attribute__((target("arm"), noinline))
#define THUMB __attribute__((target("thumb"), noinline))
#define COUNTED called++

static volatile unsigned long called, entries, exits;
static volatile int one = 1;

/* The first instructions are a comparison and what it's a condition of. */
THUMB int t_condition(int a, int b) { COUNTED; return a > b ? a : a == b ? 7 : b - 1; }
ARM int a_condition(int a, int b) { COUNTED; return a > b ? a : a == b ? 7 : b - 1; }
THUMB __attribute__((naked)) int t_at_once(int a, int b) { __asm__("cmp r0, r1\n ite gt\n movgt r0, #5\n movle r0, #6\n bx lr"); }
ARM __attribute__((naked)) int a_at_once(int a, int b) { __asm__("cmp r0, r1\n movgt r0, #5\n movle r0, #6\n bx lr"); }
/* Literals behind one function stand before the next one. */
THUMB double t_literals(double a) { COUNTED; return a * 3.14159265358979 + 1e100 / 1e99; }
ARM double a_literals(double a) { COUNTED; return a * 3.14159265358979 + 1e100 / 1e99; }
THUMB float t_single(int a, float b, double c, float d) { COUNTED; return (float)a + b * 10 + (float)c * 100 + d * 1000; }
ARM float a_single(int a, float b, double c, float d) { COUNTED; return (float)a + b * 10 + (float)c * 100 + d * 1000; }
/* Arguments on the stack. */
THUMB long t_many(long a, long b, long c, long d, long e, long long f, long g)
{
    COUNTED;
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * (long)f + 7 * g;
}
ARM long a_many(long a, long b, long c, long d, long e, long long f, long g)
{
    COUNTED;
    return a_condition(1, 2) - 1 + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * (long)f + 7 * g;
}
THUMB int t_variable(int n, ...)
{
    va_list list;
    int sum = 0;
    COUNTED;
    va_start(list, n);
    while (n--)
        sum += va_arg(list, int) + (int)va_arg(list, double);
    va_end(list);
    return sum;
}
ARM int a_variable(int n, ...)
{
    va_list list;
    int sum = 0;
    COUNTED;
    va_start(list, n);
    while (n--)
        sum += va_arg(list, int) + (int)va_arg(list, double);
    va_end(list);
    return sum;
}
struct large {
    int numbers[9];
};
struct floats {
    double d[4];
};
THUMB struct large t_large(int a) { COUNTED; return (struct large){{a, one, 2, 3, 4, 5, 6, 7, a * 2}}; }
ARM struct large a_large(int a) { COUNTED; return (struct large){{a, one, 2, 3, 4, 5, 6, 7, a * 2}}; }
THUMB struct floats t_floats(struct floats of) { COUNTED; of.d[0] += 1; of.d[3] *= 2; return of; }
ARM struct floats a_floats(struct floats of) { COUNTED; of.d[0] += 1; of.d[3] *= 2; return of; }
THUMB long long t_long(long long a, long long b) { COUNTED; return a / b; }
ARM long long a_long(long long a, long long b) { COUNTED; return a % b; }
/* Large frames, of unknown size, and saved floating-point registers. */
THUMB int t_frame(int n)
{
    volatile char room[3000];
    COUNTED;
    room[n] = (char)n;
    return room[n] + t_condition(1, 1);
}
ARM int a_frame(int n)
{
    volatile char room[3000];
    COUNTED;
    room[n] = (char)n;
    return room[n] + t_condition(1, 1);
}
THUMB int t_unknown(int n)
{
    volatile char *room = alloca((size_t)n);
    COUNTED;
    room[n - 1] = 3;
    return room[n - 1] + a_condition(3, 2);
}
ARM int a_unknown(int n)
{
    volatile char *room = alloca((size_t)n);
    COUNTED;
    room[n - 1] = 3;
    return room[n - 1] + t_condition(3, 2);
}
THUMB double t_saved(double a, double b)
{
    COUNTED;
    double x = t_literals(a), y = a_literals(b);
    return x * b + y * a;
}
ARM double a_saved(double a, double b)
{
    COUNTED;
    double x = t_literals(a), y = a_literals(b);
    return x * b + y * a;
}
/* Calls at the end, into the other instruction set. */
THUMB int t_last(int a, int b) { COUNTED; return a_condition(b, a); }
ARM int a_last(int a, int b) { COUNTED; return t_condition(b, a); }
static jmp_buf place;
THUMB __attribute__((noreturn)) void t_leaves(int n) { COUNTED; longjmp(place, n); }
ARM __attribute__((noreturn)) void a_leaves(int n) { COUNTED; longjmp(place, n); }
/* A function in a function gets what's around it in ip. gcc can't make a pointer to it in both instruction sets at once. */
NI int t_around(int a)
{
    COUNTED;
#ifndef __clang__
    __attribute__((noinline)) int inner(int b) { COUNTED; return a * 10 + b; }
    int (*volatile call)(int) = inner;
    return call(3) + inner(4);
#else
    return a * 20 + 7;
#endif
}

BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    entries++;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    exits++;
}
BARE static void leave(void (*how)(int))
{
    int got = setjmp(place);
    if (!got)
        how(5);
    CHECK(got == 5);
}
BARE static void call_all(void)
{
    struct floats four = {{1, 2, 3, 4}};
    CHECK(t_condition(3, 2) == 3 && t_condition(2, 2) == 7 && t_condition(1, 9) == 8);
    CHECK(a_condition(3, 2) == 3 && a_condition(2, 2) == 7 && a_condition(1, 9) == 8);
    CHECK(t_literals(2) == a_literals(2) && t_literals(1) > 13.14 && t_literals(1) < 13.15);
    CHECK(t_single(1, 2, 3, 4) == 4321 && a_single(1, 2, 3, 4) == 4321);
    CHECK(t_many(1, 2, 3, 4, 5, 6, 7) == 140 && a_many(1, 2, 3, 4, 5, 6, 7) == 140);
    CHECK(t_variable(3, 1, 10.0, 2, 20.0, 3, 30.0) == 66 && a_variable(3, 1, 10.0, 2, 20.0, 3, 30.0) == 66);
    CHECK(t_large(4).numbers[8] == 8 && a_large(5).numbers[0] == 5 && a_large(5).numbers[7] == 7);
    CHECK(t_floats(four).d[3] == 8 && a_floats(four).d[0] == 2 && a_floats(four).d[2] == 3);
    CHECK(t_long(1000000000000, 7) == 142857142857 && a_long(1000000000000, 7) == 1);
    CHECK(t_frame(100) == 107 && a_frame(101) == 108);
    CHECK(t_unknown(50) == 6 && a_unknown(5000) == 6);
    CHECK(t_saved(1, 2) == a_saved(1, 2));
    CHECK(t_last(1, 2) == 2 && a_last(2, 2) == 7);
    CHECK(t_around(2) == 47);
    leave(t_leaves);
    leave(a_leaves);
}
BARE int main(void)
{
    /* clang gives functions without a prologue no hook, and doesn't know functions in functions. */
    enum { FUNCTIONS = 27, CALLS = 40, LEFT = 2 };
    CHECK(mcount_prepare("*") >= FUNCTIONS);
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, MCOUNT_VECTORS);
    for (int round = 0; round < 10; round++) {
        CHECK(mcount_arm(tracer, "[at]_*") >= FUNCTIONS);
        long inner = mcount_arm(tracer, "inner*");
        CHECK(inner == 1 || inner == -MCOUNT_NO_MATCH);
        called = entries = exits = 0;
        call_all();
        CHECK(called > CALLS && entries == called);
        /* Nothing has shown yet that those that jumped are gone. */
        CHECK(exits >= called - LEFT && exits <= called);
        CHECK(t_at_once(1, 0) == 5 && t_at_once(1, 1) == 6 && a_at_once(1, 0) == 5 && a_at_once(1, 1) == 6);
        CHECK(mcount_disarm(tracer, 0) > 0);
        called = entries = 0;
        call_all();
        CHECK(called > CALLS && entries == 0);
    }
    CHECK(mcount_close(tracer) == 0);
    puts("ok");
    return 0;
}
