/* Traced functions of a second object: the linker joins its table to the first one's. One of them
   is in a section of its own that no policy of Linux knows. */
#include "samples.h"

#ifndef ELSEWHERE
#define ELSEWHERE "traced_text"
#endif

__attribute__((section(ELSEWHERE))) WHOLE int elsewhere(int a) {
    return leaf(a) * 5;
}

WHOLE int last(int a) {
    return elsewhere(a) + 1;
}
