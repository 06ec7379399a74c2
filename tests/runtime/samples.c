/* Traced functions of every shape that moves the hook about: leaf, static, weak, recursive, a big
   frame, many arguments. HOOK is the hook symbol; its address is taken in code and in data, and
   neither reference is a call site. */
#include "samples.h"

extern void HOOK(void);

const void *const hook_in_data = (const void *)HOOK;

__attribute__((no_instrument_function)) WHOLE const void *hook_in_code(void) {
    return (const void *)HOOK;
}

WHOLE int leaf(int a) {
    return a * 3 + 1;
}

static WHOLE int local_leaf(int a) {
    return a ^ 0x55;
}

int (*const local)(int) = local_leaf;

__attribute__((weak)) WHOLE int weak(int a) {
    return leaf(a) - 7;
}

WHOLE int recursive(int n) {
    return n < 2 ? n : recursive(n - 1) + recursive(n - 2);
}

WHOLE int big_frame(int a) {
    volatile char buffer[9000];
    for (unsigned i = 0; i < sizeof buffer; i += 1000)
        buffer[i] = a + i;
    return buffer[8000] + leaf(buffer[3000]);
}

WHOLE int variadic(int count, ...) {
    __builtin_va_list arguments;
    int sum = 0;
    __builtin_va_start(arguments, count);
    while (count--)
        sum = sum * 2 + __builtin_va_arg(arguments, int);
    __builtin_va_end(arguments);
    return sum;
}

WHOLE long many(int a, long b, int c, long d, int e, long f, int g, long h, int i, long j) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

WHOLE int tail(int a) {
    return leaf(a + 1);
}

WHOLE int caller(int a) {
    return leaf(a) + local_leaf(a) + weak(a) + tail(a) + leaf(a + 2);
}
