/* What the oracle calls, in the main program. Never traced itself. */
#include "oracle.h"
#include "samples.h"

#define FUNCTION(name) #name, &(const void *const){name}

const struct sample samples[] = {
    {FUNCTION(leaf), 1},
    {"local_leaf", (const void *const *)&local, 1},
    {FUNCTION(weak), 1},
    {FUNCTION(recursive), 1},
    {FUNCTION(big_frame), 1},
    {FUNCTION(variadic), 1},
    {FUNCTION(many), 1},
    {FUNCTION(tail), 1},
    {FUNCTION(caller), 1},
    {FUNCTION(elsewhere), 1},
    {FUNCTION(last), 1},
    {FUNCTION(hook_in_code), 0},
    {FUNCTION(exercise), 0},
};
const unsigned sample_count = sizeof samples / sizeof *samples;

UNTRACED long exercise(void) {
    long sum = leaf(1) + local(2) + weak(3) + recursive(6) + big_frame(4);
    sum = sum * 3 + variadic(9, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    sum = sum * 3 + many(1, -2, 3, -4, 5, -6, 7, -8, 9, -10);
    sum = sum * 3 + tail(5) + caller(6) + elsewhere(7) + last(8);
    return sum + (hook_in_code() == hook_in_data);
}
