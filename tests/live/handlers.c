/* Arms functions by name, glob and address; changes arguments and results, leaves functions out, sends calls
 * elsewhere, replaces functions. */
#include "check.h"
#include <errno.h>

/* Volatile, because the compiler knows which functions change them, and doesn't know of handlers. */
static volatile unsigned long entries, exits, fibs;
static volatile long results;

NI long add(long a, long b)
{
    __asm__ volatile("" : "+r"(a));
    return a + b;
}
#ifdef __i386__
/* Only vectors are in vector registers. */
typedef double wide __attribute__((vector_size(16)));
NI wide multiply(wide a, wide b)
{
    __asm__ volatile("" : IN_VECTOR(a));
    return a * b;
}
#define MULTIPLY(a, b) multiply((wide){a}, (wide){b})[0]
#else
NI double multiply(double a, double b)
{
    __asm__ volatile("" : IN_VECTOR(a));
    return a * b;
}
#define MULTIPLY(a, b) multiply(a, b)
#endif
NI long fib(long n)
{
    fibs++;
    if (n < 2)
        return n;
    long a = fib(n - 1);
    __asm__ volatile("" : "+r"(a));
    long b = fib(n - 2);
    __asm__ volatile("" : "+r"(b));
    return a + b;
}
NI int keeps_errno(int n)
{
    __asm__ volatile("" : "+r"(n));
    return errno + n;
}

BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    call->data = ARGUMENT(call);
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    CHECK(call->end == MCOUNT_RETURN);
    if (call->data < 2)
        CHECK(RESULT(call) == call->data);
    results += (long)RESULT(call);
}
BARE static int skip(struct mcount_call *call, void *data)
{
    RESULT(call) = (uint64_t)*(long *)data;
    return MCOUNT_SKIP;
}
BARE long instead(long a, long b) { return a * 1000 + b; }
BARE static int redirect(struct mcount_call *call, void *data)
{
    (void)data;
    call->target = (uint64_t)(uintptr_t)instead;
    return MCOUNT_CONTINUE;
}
BARE static int change(struct mcount_call *call, void *data)
{
    (void)data;
    ARGUMENT(call) += 100;
    return MCOUNT_CONTINUE;
}
BARE static void change_result(struct mcount_call *call, void *data)
{
    (void)data;
    RESULT(call) *= 2;
}
BARE static int vector_in(struct mcount_call *call, void *data)
{
    (void)data;
    CHECK(call->vectors);
    call->vectors[0].f64[0] *= 10;
    return MCOUNT_CONTINUE;
}
BARE static void vector_out(struct mcount_call *call, void *data)
{
    (void)data;
    call->vectors[0].f64[0] += 0.5;
}
/* Calls functions that are armed, its own as well. */
BARE static int call_others(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    entries++;
    CHECK(add(1, 1) == 2);
    CHECK(fib(5) == 5);
    errno = 99;
    return MCOUNT_CONTINUE;
}
BARE static void *order(struct mcount_call *call, void *data, int by)
{
    char *text = data;
    size_t length = strlen(text);
    text[length] = (char)('0' + by);
    (void)call;
    return 0;
}
BARE static int first_in(struct mcount_call *call, void *data) { return order(call, data, 1), MCOUNT_CONTINUE; }
BARE static int second_in(struct mcount_call *call, void *data) { return order(call, data, 2), MCOUNT_CONTINUE; }
BARE static int third_in(struct mcount_call *call, void *data)
{
    order(call, data, 3);
    RESULT(call) = 5;
    return MCOUNT_SKIP;
}
BARE static void first_out(struct mcount_call *call, void *data) { order(call, data, 4); }
BARE static void second_out(struct mcount_call *call, void *data) { order(call, data, 5); }
BARE static void third_out(struct mcount_call *call, void *data) { order(call, data, 6); }

BARE static void watching(void)
{
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    entries = exits = fibs = 0;
    CHECK(mcount_arm(tracer, "nothing") == -MCOUNT_NO_MATCH);
    CHECK(strstr(mcount_error(), "nothing"));
    CHECK(mcount_arm(tracer, "a[") == -MCOUNT_BAD_PATTERN);
    CHECK(mcount_arm_address(tracer, on_entry) == -MCOUNT_NO_MATCH);
    CHECK(mcount_arm(0, "fib") == -MCOUNT_ARGUMENT);
    CHECK(mcount_arm(tracer, 0) == -MCOUNT_ARGUMENT);
    CHECK(!mcount_handlers(0, 0, 0, 0));
    CHECK(mcount_arm(tracer, "fib") == 1);
    CHECK(mcount_arm(tracer, "fib") == 1);
    CHECK(fib(20) == 6765);
    CHECK(entries == fibs && exits == fibs && results > 6765);
    CHECK(mcount_disarm(tracer, 0) == 1);
    CHECK(fib(20) == 6765);
    CHECK(entries == fibs / 2);
    CHECK(mcount_arm(tracer, "f*b@*") == 1);
    CHECK(mcount_arm_address(tracer, (const char *)keeps_errno + 3) == 1);
    entries = exits = fibs = 0;
    errno = 7;
    CHECK(fib(10) == 55);
    CHECK(entries == fibs);
    CHECK(mcount_disarm_address(tracer, fib) == 1);
    CHECK(fib(10) == 55);
    CHECK(entries == fibs / 2);
    CHECK(mcount_close(tracer) == 0);
    CHECK(mcount_close(0) == 0);
}
BARE static void changing(int after_prologue)
{
    long result = 77;
    mcount_tracer *tracer = mcount_handlers(change, change_result, 0, 0);
    CHECK(mcount_arm(tracer, "add") == 1);
    /* Behind a prologue, the function may have its arguments elsewhere already. */
    long first = add(1, 2);
    CHECK(first == 206 || (after_prologue && first == 6));
    CHECK(mcount_close(tracer) == 0);
    CHECK(add(1, 2) == 3);
    tracer = mcount_handlers(vector_in, vector_out, 0, MCOUNT_VECTORS);
    CHECK(mcount_arm(tracer, "multiply") == 1);
    double product = MULTIPLY(2, 3);
    CHECK(product == 60.5 || (after_prologue && product == 6.5));
    CHECK(mcount_close(tracer) == 0);
    CHECK(MULTIPLY(2, 3) == 6);
    /* Both at once: the first's results are seen by the second, and exits come in the other order. */
    tracer = mcount_handlers(change, change_result, 0, 0);
    mcount_tracer *other = mcount_handlers(change, change_result, 0, 0);
    CHECK(mcount_arm(tracer, "add") == 1 && mcount_arm(other, "add") == 1);
    CHECK(add(1, 2) == (first == 6 ? 3 : 203) * 4);
    CHECK(mcount_close(tracer) == 0);
    CHECK(add(1, 2) == first);
    CHECK(mcount_close(other) == 0);
    const void *original;
    if (after_prologue) {
        CHECK(mcount_replace(add, instead, &original) == -MCOUNT_UNSUITABLE);
        return;
    }
    tracer = mcount_handlers(skip, 0, &result, 0);
    CHECK(mcount_arm(tracer, "add") == 1);
    CHECK(add(1, 2) == 77);
    CHECK(mcount_close(tracer) == 0);
    tracer = mcount_handlers(redirect, 0, 0, 0);
    CHECK(mcount_arm(tracer, "add") == 1);
    CHECK(add(1, 2) == 1002);
    CHECK(mcount_close(tracer) == 0);
    char text[16] = "";
    mcount_tracer *three[] = {
        mcount_handlers(first_in, first_out, text, 0),
        mcount_handlers(second_in, second_out, text, 0),
        mcount_handlers(third_in, third_out, text, 0),
    };
    for (int i = 0; i < 3; i++)
        CHECK(mcount_arm(three[i], "add") == 1);
    CHECK(add(1, 2) == 5);
    CHECK(!strcmp(text, "12354"));
    CHECK(mcount_close(three[2]) == 0);
    memset(text, 0, sizeof text);
    CHECK(add(1, 2) == 3);
    CHECK(!strcmp(text, "1254"));
    CHECK(mcount_close(three[0]) == 0 && mcount_close(three[1]) == 0);
}
BARE static void replacing(void)
{
    const void *original;
    CHECK(mcount_replace(on_entry, instead, &original) == -MCOUNT_NO_MATCH);
    CHECK(mcount_replace(add, instead, &original) == 0);
    CHECK(add(1, 2) == 1002);
    CHECK(((long (*)(long, long))original)(1, 2) == 3);
    /* Handlers see the call of the function, wherever it goes. */
    mcount_tracer *tracer = mcount_handlers(change, 0, 0, 0);
    CHECK(mcount_arm(tracer, "add") == 1);
    CHECK(add(1, 2) == 101002);
    CHECK(mcount_put_back(add) == 0);
    CHECK(add(1, 2) == 103);
    CHECK(mcount_close(tracer) == 0);
    CHECK(add(1, 2) == 3);
    CHECK(mcount_replace(add, instead, 0) == 0 && mcount_replace(add, on_entry, 0) == 0);
    CHECK(mcount_put_back(add) == 0);
    CHECK(add(1, 2) == 3);
}
BARE static void nesting(void)
{
    mcount_tracer *tracer = mcount_handlers(call_others, 0, 0, 0);
    CHECK(mcount_arm(tracer, "*") >= 4);
    entries = fibs = 0;
    uint64_t missed = mcount_missed();
    errno = 3;
    CHECK(keeps_errno(4) == 7);
    CHECK(errno == 3);
    CHECK(entries == 1);
    /* add, fib(5) */
    CHECK(mcount_missed() - missed == 1 + fibs);
    CHECK(mcount_close(tracer) == 0);
}
BARE int main(int argc, char **argv)
{
    int after_prologue = argc > 1 && !strcmp(argv[1], "after-prologue");
    for (int i = 0; i < 3; i++) {
        watching();
        changing(after_prologue);
        if (!after_prologue)
            replacing();
        nesting();
    }
    CHECK(mcount_protocol(3) == -MCOUNT_ARGUMENT);
    puts("ok");
    return 0;
}
