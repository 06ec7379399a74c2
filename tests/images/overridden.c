/* Weak functions that lose to those of samples.c and more.c: their code and their entries stay in
   the image, but no symbol says so. */
#include "samples.h"

__attribute__((weak)) WHOLE int leaf(int a) {
    return a * 3 + 2;
}

__attribute__((weak)) WHOLE int last(int a) {
    return a + 2;
}
