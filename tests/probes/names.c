// A function whose name says that it returns twice.
//# refuse: savectx left-out
//# refuse: dlsym left-out
#include "function.h"
int savectx(int), dlsym(int);
FUNCTION(savectx, "mov $5, %eax\nret");
FUNCTION(dlsym, "mov $6, %eax\nret");
int main(void) { printf("%d %d\n", savectx(1), dlsym(1)); }
