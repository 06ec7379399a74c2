// A call as the first instruction: it returns behind where it was.
//# refuse: blr instruction
//# planned: end
//# leave: end
//# leave: finish
//# leave: blr
#include <stdlib.h>
#include "function.h"
_Noreturn void end(void), blr(void);
extern char after_call[];
void finish(void *from) {
  printf("%d\n", from == (void *)after_call);
  exit(0);
}
FUNCTION(end, "bl 1f\n.globl after_call\nafter_call: brk #1\n1: b told");
// Not a function of which anything is known.
asm(".text\ntold: mov x0, x30\nb finish\n");
FUNCTION(blr, "blr x0\nbrk #1");
int main(void) { end(); }
