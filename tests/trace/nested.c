/* Nested functions of gcc have their static chain in %r10, and with -mfentry they push it before they call the hook.
 * %rbp may hold anything there: here, the address of a table that must stay as it is. */
#include "hits.h"

TRUTH();

static long table[64];

NI static long each(long (*function)(long), long count)
{
    HIT();
    long sum = 0;
    for (long i = 0; i < count; i++)
        sum += function(i);
    return sum;
}

NI static long outer(long factor, const long *values)
{
    HIT();
    long seen = 0;
    NI long inner(long x)
    {
        seen++;
        return x * factor + values[x % 8];
    }
    long sum = 0;
    for (long i = 0; i < 100; i++)
        sum += inner(i);
    sum += each(inner, 10);
    return sum * 1000 + seen;
}

int main(void)
{
    memset(table, 1, sizeof table);
    long result = 0;
    for (long i = 0; i < 10; i++)
        result ^= outer(i, table);
    for (int i = 0; i < 64; i++)
        if (table[i] != 0x0101010101010101)
            printf("word %d is spoilt\n", i);
    printf("%ld\n", result);
    return 0;
}
