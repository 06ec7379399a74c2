/* Calls that don't return: some are left by longjmp(), and the last ones by exit(). */
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf back;

__attribute__((noinline)) void leaves(void) { longjmp(back, 1); }

__attribute__((noinline)) void ends(void) { exit(3); }

int main(void)
{
    for (volatile int i = 0; i < 7; i++)
        if (setjmp(back) == 0)
            leaves();
    ends();
}
