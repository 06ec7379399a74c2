/* What the oracle calls when the program is one weak function. Never traced itself. */
#include "oracle.h"
#include "samples.h"

#define FUNCTION(name) #name, &(const void *const){name}

const struct sample samples[] = {{FUNCTION(feeble), 1}, {FUNCTION(exercise), 0}};
const unsigned sample_count = sizeof samples / sizeof *samples;

UNTRACED long exercise(void) {
    return feeble(4) * 2 + feeble(5);
}
