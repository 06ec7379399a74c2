/* Hooks of several instructions, where threads run and can't be stopped: that's refused, and nothing is changed. */
#include "check.h"
#include <pthread.h>

static volatile int stop;

NI long one(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 1;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    abort();
}
BARE static void *spin(void *data)
{
    (void)data;
    while (!stop)
        one(1);
    return 0;
}
BARE int main(void)
{
    unsigned char before[16];
    /* On Arm, a bit of the address says which instruction set it is. */
    const void *code = (const void *)((uintptr_t)one & ~(uintptr_t)1);
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
    puts("ok");
    return 0;
}
