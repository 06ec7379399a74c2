// A loop to the first instruction: each round would be a call.
//# refuse: f loop
//# force: f 4
#include "function.h"
int f(int);
FUNCTION(f, "subs w0, w0, #1\nb.ne f\nmov w0, #3\nret");
int main(void) { printf("%d\n", f(5000)); }
