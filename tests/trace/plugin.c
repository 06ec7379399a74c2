/* What programs open with dlopen. */
#include <stdlib.h>
static int sum;
__attribute__((noinline)) int half(int x) { return x * 2; }
__attribute__((noinline)) int plugin(int x) { return half(x) + 1; }
__attribute__((constructor)) static void begin(void) { sum = half(2); }
__attribute__((destructor)) static void end(void) {
    if (sum != 4)
        abort();
}
