/* Ten million tail calls, in constant stack. */
#include "hits.h"
TRUTH()
NI int odd(unsigned n);
NI int even(unsigned n) {
    HIT();
    return n == 0 ? 1 : odd(n - 1);
}
NI int odd(unsigned n) {
    HIT();
    return n == 0 ? 0 : even(n - 1);
}
int main(void) {
    printf("%d\n", even(9999999));
    return 0;
}
