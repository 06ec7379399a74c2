/* Shows the calls of a program's own functions, with their first argument and their result.
 *
 *   cc -O2 -fpatchable-function-entry=5 examples/watch.c $(pkg-config --cflags --libs mcount-live) -o watch
 *   ./watch '*square*'
 */
#include <mcount/live.h>
#include <stdio.h>

/* A handler's own calls aren't shown to it. Without a hook, they don't even cost a look. */
#define WITHOUT_HOOK __attribute__((patchable_function_entry(0)))

__attribute__((noinline)) long square(long n) { return n * n; }
__attribute__((noinline)) long sum_of_squares(long n)
{
    long sum = 0;
    for (long i = 1; i <= n; i++)
        sum += square(i);
    return sum;
}

WITHOUT_HOOK static int entered(struct mcount_call *call, void *data)
{
    (void)data;
    call->data = call->registers.rdi; /* kept for the exit */
    return MCOUNT_CONTINUE;
}

WITHOUT_HOOK static void left(struct mcount_call *call, void *data)
{
    (void)data;
    printf("%s(%ld) = %ld\n", call->function->name, (long)call->data, (long)call->registers.rax);
}

int main(int argc, char **argv)
{
    mcount_tracer *tracer = mcount_handlers(entered, left, NULL, 0);
    if (mcount_arm(tracer, argc > 1 ? argv[1] : "*") < 0) {
        fprintf(stderr, "watch: %s\n", mcount_error());
        return 1;
    }
    printf("%ld\n", sum_of_squares(3));
    return mcount_close(tracer) != 0;
}
