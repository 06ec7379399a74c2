/* Traces one phase of a program: `mcount replay phase.mcount` prints its calls.
 *
 *   cc -O2 -fpatchable-function-entry=5 examples/phase.c $(pkg-config --cflags --libs mcount-live) -o phase
 *   ./phase
 */
#include <mcount/live.h>
#include <stdio.h>

__attribute__((noinline)) long step(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n * 3 + 1;
}
__attribute__((noinline)) long phase(long n)
{
    for (int i = 0; i < 1000; i++)
        n = step(n);
    return n;
}

int main(void)
{
    long result = phase(1); /* isn't in the trace, and costs nothing */
    mcount_tracer *trace = mcount_trace("phase.mcount");
    if (!trace || mcount_arm(trace, "*") < 0) {
        fprintf(stderr, "phase: %s\n", mcount_error());
        return 1;
    }
    mcount_mark("phase 2");
    result += phase(2);
    /* The program's own output is that without a trace. If calls are missing, this says why. */
    if (mcount_close(trace) != 0)
        fprintf(stderr, "phase: %s\n", mcount_error());
    printf("%ld\n", result);
    return 0;
}
