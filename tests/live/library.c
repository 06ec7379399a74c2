/* Opens a library, arms it, closes it while it's armed, and opens it again: what's gone is forgotten before anything is
 * written. Between times, other memory is where it was. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile unsigned long entries;
static volatile int stop;

NI long own(long a)
{
    __asm__ volatile("" : "+r"(a));
    return a + 1;
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    entries++;
    return MCOUNT_CONTINUE;
}
BARE static void *open_and_close(void *path)
{
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW);
        dlclose(library);
    }
    return 0;
}
BARE static void round_of(const char *path, mcount_tracer *tracer, int closes_armed)
{
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    long (*twice)(long) = (long (*)(long))dlsym(library, "plugin_twice");
    CHECK(mcount_arm(tracer, "plugin_*@plugin*") == -MCOUNT_NO_MATCH);
    CHECK(mcount_rescan() == 0);
    entries = 0;
    CHECK(mcount_arm(tracer, "plugin_*@plugin*") == 2);
    CHECK(twice(4) == 8 && entries == 2);
    CHECK(mcount_arm_address(tracer, (void *)(uintptr_t)twice) == 1);
    char *page = (char *)((uintptr_t)twice & ~(uintptr_t)4095);
    if (!closes_armed) {
        CHECK(mcount_disarm(tracer, 0) >= 2);
        CHECK(twice(4) == 8 && entries == 2);
    }
    dlclose(library);
    /* Something else is where the library was: it must stay as it is. */
    char *other = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(other == page);
    memset(page, 0x90, 4096);
    CHECK(mcount_arm(tracer, "plugin_*") == -MCOUNT_NO_MATCH);
    CHECK(mcount_arm(tracer, "own") == 1);
    CHECK(mcount_disarm(tracer, 0) == 1);
    for (int i = 0; i < 4096; i++)
        CHECK(page[i] == (char)0x90);
    munmap(page, 4096);
}
BARE int main(int argc, char **argv)
{
    CHECK(argc > 1);
    mcount_tracer *tracer = mcount_handlers(on_entry, 0, 0, 0);
    CHECK(mcount_arm(tracer, "own") == 1 && mcount_disarm(tracer, 0) == 1);
    for (int i = 0; i < 20; i++)
        round_of(argv[1], tracer, i % 2);
    /* Another thread opens and closes it all the time. */
    pthread_t thread;
    pthread_create(&thread, 0, open_and_close, argv[1]);
    for (int i = 0; i < 300; i++) {
        CHECK(mcount_rescan() == 0);
        mcount_arm(tracer, "*");
        CHECK(own(i) == i + 1);
        CHECK(mcount_disarm(tracer, 0) >= 1);
    }
    stop = 1;
    pthread_join(thread, 0);
    puts("ok");
    return 0;
}
