/* One weak function alone in its section: assemblers drop that section's symbol, and with it what
   a table entry is usually based on. */
#include "samples.h"

__attribute__((weak)) WHOLE int feeble(int a) {
    return a * 11 + 3;
}
