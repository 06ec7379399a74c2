/* Eight threads run through ten thousand functions while others make probes of these and take them away. Signals come, and threads,
 * processes and a library come and go. All check what functions return.
 *
 * through SECONDS LIBRARY */
#include "through.h"

/* There's no library to ask. */
BARE const char *mcount_error(void) { return strerror(errno); }

BARE int main(int argc, char **argv)
{
    CHECK(argc == 3);
    pthread_t threads[THREADS], other;
    void *rounds = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], 0, run, (void *)i) == 0);
    begin_signals();
    CHECK(pthread_create(&other, 0, come_and_go, argv[2]) == 0);
    double end = now() + atof(argv[1]);
    while (now() < end && !wrong)
        usleep(10000);
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    pthread_join(other, &rounds);
    CHECK(!wrong && calls > 0 && rounds != 0);
    printf("%lu calls, %lu signals, %lu threads and children\nok\n", calls, signals, (unsigned long)(uintptr_t)rounds);
    return 0;
}
