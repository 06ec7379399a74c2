/* What programs open with dlopen, and calls other libraries, in its constructor, too. */
#include <stdlib.h>
static int sum;
#ifdef TAKEN
int (*volatile taken)(int) = abs;
__attribute__((noinline)) static int is_taken(int (*one)(int)) { return one == taken; }
#endif
__attribute__((noinline)) int half(int x) { return abs(-x) * 2; }
__attribute__((noinline)) int plugin(int x)
{
#ifdef TAKEN
    if (!is_taken(abs))
        return -1;
#endif
    return half(x) + (labs(-1) == 1);
}
__attribute__((constructor)) static void begin(void) { sum = half(2); }
