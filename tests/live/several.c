/* Hooks of several instructions, where threads run and can't be stopped: that's refused, and nothing is changed. With an argument, the
 * hooks are prepared before there are threads, and may still be changed only while there's one. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static volatile int stop, entries;

NI long one(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 1;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    if (!stop)
        abort();
    entries++;
    return MCOUNT_CONTINUE;
}
BARE static void *spin(void *data)
{
    (void)data;
    while (!stop)
        one(1);
    return 0;
}
BARE int main(int count, char **arguments)
{
    (void)arguments;
    unsigned char before[16];
    /* On Arm, a bit of the address says which instruction set it is. */
    const void *code = (const void *)((uintptr_t)one & ~(uintptr_t)1);
    if (count > 1)
        CHECK(mcount_prepare("*") > 0);
    memcpy(before, code, sizeof before);
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, spin, 0) == 0);
    mcount_tracer *tracer = mcount_handlers(on_entry, 0, 0, 0);
    CHECK(mcount_arm(tracer, "one") == -MCOUNT_THREADS);
    CHECK(strstr(mcount_error(), "threads run"));
    CHECK(!memcmp(before, code, sizeof before));
    CHECK(one(1) == 2);
    stop = 1;
    CHECK(pthread_join(thread, 0) == 0);
    /* The kernel may still know the thread for a moment. */
    int armed = -MCOUNT_THREADS;
    for (int i = 0; i < 1000 && armed == -MCOUNT_THREADS; i++, usleep(1000))
        armed = mcount_arm(tracer, "one");
    CHECK(armed == 1);
    CHECK(one(1) == 2 && entries == 1);
    stop = 0;
    CHECK(mcount_disarm(tracer, "one") == 1);
    CHECK(one(1) == 2 && entries == 1);
    puts("ok");
    return 0;
}
