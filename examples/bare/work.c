/* What is traced: the only file here that's compiled with hooks. Each function counts its calls itself. */
#include "work.h"
#include "hooks.h"

#define NAME(name) #name,
const char *const work_names[] = {WORK(NAME)};
#define NUMBER(name) name##_number,
enum { WORK(NUMBER) };

/* For each processor. Volatile, so that the compiler counts where and when it's written here. */
volatile uint64_t work_counts[2][WORK_FUNCTIONS];

#define COUNT(name) (work_counts[which][name##_number]++)
#define FUNCTION __attribute__((noipa))

FUNCTION static uint32_t mix(unsigned which, uint32_t value)
{
    COUNT(mix);
    return (value ^ value >> 15) * 0x2c1b3c6d;
}

/* With an operator that compilers can't make a loop of. */
FUNCTION static uint32_t tree(unsigned which, uint32_t depth)
{
    COUNT(tree);
    return depth < 2 ? depth : tree(which, depth - 1) ^ tree(which, depth - 2) << 1;
}

FUNCTION static int is_less(unsigned which, uint32_t one, uint32_t other)
{
    COUNT(is_less);
    return one < other;
}

FUNCTION static void sort(unsigned which, uint32_t *values, unsigned count,
                          int (*less)(unsigned, uint32_t, uint32_t))
{
    COUNT(sort);
    for (unsigned end = 1; end < count; end++)
        for (unsigned at = end; at > 0 && less(which, values[at], values[at - 1]); at--) {
            uint32_t value = values[at];
            values[at] = values[at - 1];
            values[at - 1] = value;
        }
}

/* Ends with a jump to mix(). */
FUNCTION static uint32_t finish(unsigned which, uint32_t value)
{
    COUNT(finish);
    return mix(which, value + 1);
}

/* More arguments than there are registers for. */
FUNCTION static uint32_t sum(unsigned which, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e,
                             uint32_t f, uint32_t g, uint32_t h, uint32_t i)
{
    COUNT(sum);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

struct three {
    uint64_t a, b, c;
};

/* The result is in memory, and its address in a register of its own. */
FUNCTION static struct three thrice(unsigned which, uint64_t value)
{
    COUNT(thrice);
    return (struct three){value, 2 * value, 3 * value};
}

uint32_t work(unsigned which, uint32_t seed)
{
    uint32_t values[6], result = seed;

    COUNT(work);
    for (unsigned at = 0; at < 6; at++)
        values[at] = result = mix(which, result + at);
    sort(which, values, 6, is_less);
    for (unsigned at = 1; at < 6; at++)
        result += values[at - 1] <= values[at] ? tree(which, at) : 1u << 31;
    result += sum(which, 1, 2, 3, 4, 5, 6, 7, 8, values[0]);
    result += (uint32_t)thrice(which, result).c;
    return finish(which, result);
}
