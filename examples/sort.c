/* A program that sorts numbers. With -DNEW, it compares them in a slower way: docs/traces.md finds out which function that is.
 *
 *   cc -O1 -g -fpatchable-function-entry=5 -o old-sort examples/sort.c
 *   cc -O1 -g -fpatchable-function-entry=5 -DNEW -o new-sort examples/sort.c
 */
#include <stdio.h>

#define APART __attribute__((noinline))
#define COUNT 300

static volatile int numbers[COUNT];

APART void fill(int seed)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (i + seed) * 7919 % COUNT;
}

APART void sort(void)
{
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j + 1 < COUNT; j++) {
            int one = numbers[j], other = numbers[j + 1];
#ifdef NEW
            if (one % 1000 <= other % 1000 && one / 1000 <= other / 1000)
                continue;
#endif
            if (one > other) {
                numbers[j] = other;
                numbers[j + 1] = one;
            }
        }
}

int main(void)
{
    for (int i = 0; i < 50; i++) {
        fill(i);
        sort();
    }
    printf("%d\n", numbers[42]);
}
