// The kernel starts the program: there's no return address.
//# refuse: _start no-return-address
//# force: _start 5
#include "function.h"
int main(int count, char **arguments) { printf("%d %d\n", count, arguments[0] != 0); }
