// A branch around a prefix leads into an instruction, and that's all right.
//# planned: f
#include "function.h"
int f(int);
int word = 1;
FUNCTION(f, "test %edi, %edi\nmov %edi, %eax\nmov $1, %eax\nje 1f\nlock\n1: add %eax, word(%rip)\nmov word(%rip), %eax\nret");
int main(void) { printf("%d %d\n", f(0), f(1)); }
