// A loop back into the first bytes.
//# refuse: f branch
//# force: f 5
#include "function.h"
int f(int);
FUNCTION(f, "xor %eax, %eax\n1: add $2, %eax\ndec %edi\njnz 1b\nret");
int main(void) { printf("%d\n", f(5)); }
