/* longjmp over 1,000 frames, out of signal handlers, and back into the middle of a stack of calls. */
#include "hits.h"
#include <setjmp.h>
#include <signal.h>
TRUTH()

static sigjmp_buf back;
static jmp_buf middle;

NI int down(int n) {
    HIT();
    if (n == 0)
        siglongjmp(back, 1);
    int r = down(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
NI void handler(int s) {
    HIT();
    down(s);
}
NI int leaf(int n) {
    HIT();
    return n + 1;
}
NI int inner(int n) {
    HIT();
    if (n == 0)
        longjmp(middle, 5);
    int r = inner(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r;
}
/* Comes back to a frame that has callers which are traced, and returns through them. */
NI int outer(int n) {
    HIT();
    int r;
    if (n > 0)
        r = outer(n - 1);
    else if ((r = setjmp(middle)) == 0)
        inner(30);
    __asm__ volatile("" : "+r"(r));
    return r + leaf(n);
}
int main(void) {
    volatile int sum = 0;
    signal(SIGUSR1, handler);
    for (volatile int i = 0; i < 50; i++)
        if (sigsetjmp(back, 1) == 0)
            down(i * 20);
        else
            sum += leaf(i);
    for (volatile int i = 0; i < 50; i++)
        if (sigsetjmp(back, 1) == 0)
            raise(SIGUSR1);
        else
            sum += leaf(i);
    for (volatile int i = 0; i < 50; i++)
        sum += outer(i);
    printf("%d\n", sum);
    return 4;
}
