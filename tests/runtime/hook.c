/* The hook of the processors where calling it is an ordinary call. */
#include "oracle.h"

void HOOK(void);

UNTRACED void HOOK(void) {
    count_hook(__builtin_return_address(0));
}
