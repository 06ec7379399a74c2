// A jump table that leads to the first instruction: each round would be a call.
//# refuse: f table
//# force: f 4
#include "function.h"
int f(int);
FUNCTION(f, "subs w0, w0, #1\nb.eq 2f\nand w1, w0, #1\nadrp x2, table\nadd x2, x2, :lo12:table\n"
            "ldrb w2, [x2, w1, uxtw]\nadr x1, 1f\nadd x1, x1, w2, sxtb #2\nbr x1\n"
            "1: b 2f\n2: mov w0, #3\nret\n"
            ".pushsection .rodata\ntable: .byte (f - 1b) / 4, (f - 1b) / 4\n.popsection");
int main(void) { printf("%d\n", f(5000)); }
