/* What is refused, and that nothing is changed then: hooks that somebody else has changed, and hooks of several
 * instructions where threads run that can't be stopped. */
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile int stop;
static volatile unsigned long entries;

NI long one(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 1;
}
NI long two(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 2;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
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
/* Writes code as a debugger does. */
BARE static void poke(const void *place, const void *bytes, size_t length)
{
    int file = open("/proc/self/mem", O_RDWR);
    CHECK(pwrite(file, bytes, length, (off_t)(uintptr_t)place) == (ssize_t)length);
    close(file);
}
BARE static const unsigned char *hook(long (*function)(long))
{
    const unsigned char *code = (const unsigned char *)(uintptr_t)function;
    static const unsigned char landing_pad[] = {0xf3, 0x0f, 0x1e, 0xfa};
    return memcmp(code, landing_pad, 4) ? code : code + 4;
}
BARE int main(int argc, char **argv)
{
    mcount_tracer *tracer = mcount_handlers(on_entry, 0, 0, 0);
    unsigned char before[5];
    /* A jump over the rest of the hook. */
    const unsigned char jump[] = {0xeb, hook(two)[0] == 0xff ? 0x04 : 0x03};
    memcpy(before, hook(two), 5);
    poke(hook(two), jump, 2);
    CHECK(mcount_arm(tracer, "two") == -MCOUNT_FOREIGN);
    CHECK(strstr(mcount_error(), "two"));
    CHECK(mcount_arm(tracer, "*") >= 1);
    CHECK(one(1) == 2 && two(1) == 3 && entries == 1);
    CHECK(!memcmp(hook(two), jump, 2));
    CHECK(mcount_note(0) && strstr(mcount_note(0), "two"));
    poke(hook(two), before, 2);
    CHECK(mcount_disarm(tracer, 0) == 1);
    /* From now on the process may not be traced, and it can't open /proc/self/mem. */
    if (geteuid() == 0)
        CHECK(setresuid(65534, 65534, 65534) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, spin, 0) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    long result = mcount_arm(tracer, "two");
    if (argc > 1 && !strcmp(argv[1], "one-instruction")) {
        CHECK(result == 1);
        CHECK(two(1) == 3 && entries == 2);
    } else {
        CHECK(result == -MCOUNT_THREADS);
        CHECK(!memcmp(hook(two), before, 5));
    }
    /* What is ready needs no stop. */
    entries = 0;
    CHECK(mcount_arm(tracer, "one") == 1);
    one(1);
    CHECK(entries > 0);
    stop = 1;
    pthread_join(thread, 0);
    puts("ok");
    return 0;
}
