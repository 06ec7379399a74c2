/* Eight threads call ten thousand functions, signals come a thousand times a second, and one thread arms and disarms
 * them all as fast as it can. Every result is checked, by the callers and by the handlers.
 *
 * stress SECONDS PROTOCOL HOW [LIBRARY], with HOW one of: toggle, prepared (the same, of hooks that were prepared before there
 * were threads), replace, new (first arms while threads run), random (a part of them each time, while threads, processes and the
 * library come and go). */
#include "through.h"

static atomic_ulong entries, exits, replaced;

BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    call->data = LONG_ARGUMENT(call);
    errno = 5;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    unsigned n = (unsigned)strtoul(call->function->name + 1, 0, 10);
    if (LONG_RESULT(call) != expected(n, call->data)) {
        fprintf(stderr, "a handler saw a wrong result of %s\n", call->function->name);
        wrong = 1;
    }
}
BARE static uint64_t instead(uint64_t x)
{
    replaced++;
    return expected(4321, x);
}
BARE static unsigned long toggle(mcount_tracer *tracer, double end)
{
    unsigned long count = 0;
    double total = 0, best = 1;
    for (; now() < end && !wrong; count++) {
        double start = now();
        long result = count % 2 ? mcount_disarm(tracer, "f[0-9]*") : mcount_arm(tracer, "f[0-9]*");
        double took = now() - start;
        total += took;
        best = took < best ? took : best;
        CHECK(result == FUNCTIONS);
    }
    printf("%lu times, %.2f ms each, %.2f ms at best\n", count, total / (double)count * 1e3, best * 1e3);
    return count;
}
BARE static unsigned long replace(double end)
{
    unsigned long count = 0;
    const void *original;
    for (; now() < end && !wrong; count++) {
        CHECK(mcount_replace(table[4321], instead, &original) == 0);
        CHECK(((uint64_t(*)(uint64_t))original)(7) == expected(4321, 7));
        check(4321, count);
        CHECK(mcount_put_back(table[4321]) == 0);
    }
    CHECK(replaced >= count);
    return count;
}
/* Each round arms ten functions that nobody has touched yet. */
BARE static unsigned long arm_new(mcount_tracer *tracer, double end)
{
    unsigned long count = 0;
    for (; now() < end && !wrong && count < FUNCTIONS / 10; count++) {
        char pattern[16];
        snprintf(pattern, sizeof pattern, "f%03lu?", count);
        CHECK(mcount_arm(tracer, pattern) == 10);
    }
    return count;
}
/* A part of them, armed or disarmed. */
BARE static unsigned long at_random(mcount_tracer *tracer, double end)
{
    unsigned seed = 1;
    unsigned long count = 0;
    for (; now() < end && !wrong; count++) {
        char pattern[16];
        unsigned n = (unsigned)rand_r(&seed), kind = n >> 16;
        const char *forms[] = {"f%04u", "f%03u?", "f%02u??", "f???%u", "f%u???", "f[0-9]*"};
        const unsigned most[] = {10000, 1000, 100, 10, 10, 1};
        const long matches[] = {1, 10, 100, 1000, 1000, FUNCTIONS};
        snprintf(pattern, sizeof pattern, forms[kind % 6], n % most[kind % 6]);
        long result = kind / 6 % 2 ? mcount_disarm(tracer, pattern) : mcount_arm(tracer, pattern);
        if (result != matches[kind % 6]) {
            fprintf(stderr, "%s: %ld functions (%s)\n", pattern, result, mcount_error());
            wrong = 1;
        }
    }
    return count;
}
BARE int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    const char *how = argc > 3 ? argv[3] : "toggle";
    pthread_t threads[THREADS];
    CHECK(mcount_protocol(argc > 2 ? atoi(argv[2]) : MCOUNT_ONE_BYTE) == 0);
    int is_prepared = !strcmp(how, "prepared");
    if (is_prepared)
        CHECK(mcount_prepare("*") >= FUNCTIONS);
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], 0, run, (void *)i) == 0);
    begin_signals();
    int is_random = !strcmp(how, "random");
    pthread_t other;
    void *rounds = 0;
    if (is_random)
        CHECK(pthread_create(&other, 0, come_and_go, argc > 4 ? argv[4] : 0) == 0);
    double end = now() + seconds;
    int toggles = is_prepared || !strcmp(how, "toggle");
    unsigned long count = toggles                   ? toggle(tracer, end)
                          : !strcmp(how, "replace") ? replace(end)
                          : is_random               ? at_random(tracer, end)
                                                    : arm_new(tracer, end);
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    if (is_random) {
        pthread_join(other, &rounds);
        printf("%lu times, %lu threads and children\n", count, (unsigned long)(uintptr_t)rounds);
        CHECK(rounds != 0);
    }
    CHECK(mcount_close(tracer) == 0);
    CHECK(!wrong && count > 0 && calls > 0 && entries == exits);
    printf("%lu calls, %lu seen, %lu signals, %lu missed\n", calls, entries, signals, (unsigned long)mcount_missed());
    puts("ok");
    return 0;
}
