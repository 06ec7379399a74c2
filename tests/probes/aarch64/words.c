// The same by words of four bytes, relative to the table, as clang makes it.
//# refuse: f table
//# force: f 4
#include "function.h"
int f(int);
FUNCTION(f, "subs w0, w0, #1\nb.eq 2f\nand w1, w0, #1\nadrp x2, other\nadd x2, x2, :lo12:other\n"
            "ldrsw x1, [x2, w1, uxtw #2]\nadd x1, x1, x2\nbr x1\n2: mov w0, #3\nret\n"
            ".pushsection .rodata\n.p2align 2\nother: .word f - other, f - other\n.popsection");
int main(void) { printf("%d\n", f(5000)); }
