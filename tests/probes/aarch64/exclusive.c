// An exclusive load, a system call, landing pads of jumps.
//# refuse: load instruction
//# refuse: pair instruction
//# refuse: call instruction
//# refuse: trap instruction
//# refuse: pad instruction
//# planned: compare
//# planned: ordered
//# leave: trap
#include "function.h"
long word[2] __attribute__((aligned(16)));
long load(long *), pair(long *), call(void), trap(void), pad(void), compare(long *, long), ordered(long *);
FUNCTION(load, "ldaxr x1, [x0]\nadd x1, x1, #1\nstlxr w2, x1, [x0]\ncbnz w2, load + 16\nmov x0, x1\nret");
FUNCTION(pair, "ldxp x1, x2, [x0]\nclrex\nmov x0, x1\nret");
FUNCTION(call, "svc #0\nret");
FUNCTION(trap, "brk #1\nret");
FUNCTION(pad, "hint #36\nmov x0, #4\nret");
FUNCTION(compare, ".arch armv8.1-a\ncas x1, x1, [x0]\nmov x0, x1\nret");
FUNCTION(ordered, "ldar x0, [x0]\nret");
int main(void) { printf("%ld %ld %ld %ld %ld\n", load(word), pair(word), pad(), compare(word, 1), ordered(word)); }
