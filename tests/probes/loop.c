// A loop to the first instruction: each round would be a call.
//# refuse: f loop
//# force: f 9
#include "function.h"
int f(int);
FUNCTION(f, "dec %edi\njnz f\nmov $3, %eax\nret");
int main(void) { printf("%d\n", f(5000)); }
