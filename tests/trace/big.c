/* Makes enough calls to fill a small disk. */
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int leaf(int n) { return n * 3 + 1; }
int main(int argc, char **argv) {
    unsigned sum = 0;
    for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--)
        sum += leaf((int)i);
    printf("%u\n", sum);
    return 6;
}
