/* i386: functions that get their arguments in registers, that take them off the stack, and whose results are in several registers
 * or in x87's. Handlers change all registers that they may, and leave functions out where hooks are at the entry ("at-entry").
 * With a path, the calls are recorded in a trace there instead. */
#include "check.h"
#include <setjmp.h>
#include <stdint.h>

typedef float four __attribute__((vector_size(16)));
struct big {
    int n[5];
};

static volatile unsigned long entries, exits;
static volatile int skips;
static jmp_buf back;

#define KEEP(x) __asm__ volatile("" : "+r"(x))
NI __attribute__((stdcall)) int standard(int a, int b, int c)
{
    KEEP(a);
    return a * 100 + b * 10 + c;
}
NI __attribute__((fastcall)) int fast(int a, int b, int c, int d)
{
    KEEP(a);
    return a * 1000 + b * 100 + c * 10 + d;
}
NI __attribute__((regparm(3))) int registers(int a, int b, int c, int d)
{
    KEEP(a);
    return a * 1000 + b * 100 + c * 10 + d;
}
NI __attribute__((thiscall)) int of_this(int a, int b)
{
    KEEP(a);
    return a * 10 + b;
}
NI struct big in_memory(int a)
{
    KEEP(a);
    return (struct big){{a, a + 1, a + 2, a + 3, a + 4}};
}
NI long long wide(long long a)
{
    __asm__ volatile("" : "+A"(a));
    return a * 3;
}
NI double real(double a)
{
    __asm__ volatile("" : "+m"(a));
    return a / 3;
}
NI long double extended(long double a)
{
    __asm__ volatile("" : "+m"(a));
    return a / 3;
}
NI four vector(four a, four b, four c)
{
    __asm__ volatile("" : "+x"(a));
    return a + b * c;
}
/* Calls of one convention in another, and one whose last act is a call. */
NI __attribute__((stdcall)) int outer(int a, int b)
{
    int sum = standard(a, b, 1) + fast(a, b, 2, 3);
    KEEP(sum);
    return sum + in_memory(a).n[4];
}
NI __attribute__((stdcall)) int tail(int a, int b, int c) { return standard(c, b, a); }
/* Leaves frames behind, at places where arguments will be. */
NI __attribute__((stdcall)) int leaves(int depth, int unused1, int unused2)
{
    KEEP(depth);
    if (depth == 0)
        longjmp(back, 1);
    int result = leaves(depth - 1, unused1, unused2);
    KEEP(result);
    return result + 1;
}
NI int returns(int depth)
{
    KEEP(depth);
    int result = depth ? returns(depth - 1) + standard(1, 2, 3) + in_memory(depth).n[0] : 0;
    KEEP(result);
    return result;
}

BARE static void spoil(void)
{
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n movaps %%xmm0, %%xmm1\n movaps %%xmm0, %%xmm2\n movaps %%xmm0, %%xmm3\n"
                     "movaps %%xmm0, %%xmm4\n movaps %%xmm0, %%xmm5\n movaps %%xmm0, %%xmm6\n movaps %%xmm0, %%xmm7\n"
                     /* All of x87's registers. */
                     "fld1\n fld1\n fld1\n fld1\n fld1\n fld1\n fld1\n fld1\n emms\n"
                     "movl $-1, %%eax\n movl %%eax, %%ecx\n movl %%eax, %%edx\n" ::
                         : "eax", "ecx", "edx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc",
                           "memory");
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    call->data = call->stack;
    CHECK(*(uint32_t *)(uintptr_t)call->stack != 0);
    spoil();
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    CHECK(call->data == call->stack);
    spoil();
}
BARE static int skip(struct mcount_call *call, void *data)
{
    (void)data;
    skips++;
    call->registers.eax = 7;
    return MCOUNT_SKIP;
}
/* All calls, and how many. */
BARE static unsigned long all(void)
{
    volatile int a = 1, b = 2, c = 3, d = 4;
    /* The stack pointer must be what it was. */
    char *before, *after;
    __asm__ volatile("movl %%esp, %0" : "=r"(before));
    CHECK(standard(a, b, c) == 123 && fast(a, b, c, d) == 1234 && registers(a, b, c, d) == 1234);
    CHECK(of_this(a, b) == 12 && wide(0x100000001ll * a) == 0x300000003ll);
    struct big big = in_memory(a);
    CHECK(big.n[0] == 1 && big.n[4] == 5);
    /* Other values on the stack of x87 stay. */
    CHECK(real(3 * a) + real(3 * b) == 3);
    CHECK(extended(a) * 3 > 0.999L && extended(a) * 3 < 1.001L);
    four vectors = vector((four){1, 2, 3, 4}, (four){10, 20, 30, 40}, (four){2, 2, 2, 2});
    CHECK(vectors[0] == 21 && vectors[3] == 84);
    CHECK(tail(a, b, c) == 321);
    CHECK(outer(a, b) == 121 + 1223 + 5);
    CHECK(returns(20) == 20 * 123 + 210);
    __asm__ volatile("movl %%esp, %0" : "=r"(after));
    CHECK(before == after);
    return 4 + 1 + 1 + 2 + 2 + 1 + 2 + 4 + 61;
}
BARE static unsigned long jump(int depth)
{
    if (!setjmp(back))
        leaves(depth, 0, 0);
    return depth + 1;
}
BARE int main(int argc, char **argv)
{
    CHECK(argc > 1);
    unsigned long count = 0;
    if (strchr(argv[1], '/')) {
        mcount_tracer *trace = mcount_trace(argv[1]);
        CHECK(trace && mcount_arm(trace, "*") > 10);
        for (int i = 0; i < 50; i++)
            count += all() + jump(i);
        CHECK(mcount_close(trace) == 0);
        printf("%lu calls\nok\n", count);
        return 0;
    }
    count += all();
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    CHECK(mcount_arm(tracer, "*") > 10);
    for (int i = 0; i < 50; i++) {
        entries = exits = 0;
        count = all();
        CHECK(entries == count && exits == count);
        count = jump(i);
        CHECK(entries == exits + count);
    }
    CHECK(mcount_close(tracer) == 0);
    if (strcmp(argv[1], "at-entry")) {
        puts("ok");
        return 0;
    }
    volatile int a = 1, b = 2, c = 3, d = 4;
    tracer = mcount_handlers(skip, 0, 0, 0);
    CHECK(mcount_arm(tracer, "standard") == 1 && mcount_arm(tracer, "fast") == 1 && mcount_arm(tracer, "registers") == 1);
    for (int i = 0; i < 100; i++)
        CHECK(standard(a, b, c) == 7 && fast(a, b, c, d) == 7 && registers(a, b, c, d) == 7);
    CHECK(skips == 300);
    CHECK(mcount_close(tracer) == 0);
    CHECK(standard(a, b, c) == 123);
    puts("ok");
    return 0;
}
