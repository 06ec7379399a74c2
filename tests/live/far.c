/* Opens a library that's linked to be far away, farther than a branch of any processor with fixed instructions reaches,
 * and arms it: stubs are near it. A replacement and handlers are in the program itself. */
#include "check.h"
#include <dlfcn.h>
#include <stdint.h>

static volatile unsigned long entries, exits;

BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    entries++;
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)call, (void)data;
    exits++;
}
BARE static long thrice(long a) { return 3 * a; }
BARE int main(int argc, char **argv)
{
    CHECK(argc > 1);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library);
    long (*twice)(long) = (long (*)(long))dlsym(library, "plugin_twice");
    uintptr_t there = (uintptr_t)twice, here = (uintptr_t)main;
    uintptr_t distance = there > here ? there - here : here - there;
    CHECK(distance >= (uintptr_t)1 << 30);
    mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, 0);
    CHECK(mcount_arm(tracer, "plugin_*") == 2);
    CHECK(twice(4) == 8 && entries == 2 && exits == 2);
    CHECK(mcount_disarm(tracer, 0) == 2);
    CHECK(twice(4) == 8 && entries == 2);
    CHECK(mcount_replace(twice, thrice, 0) == 0);
    CHECK(twice(4) == 12);
    CHECK(mcount_put_back(twice) == 0);
    CHECK(twice(4) == 8);
    CHECK(mcount_close(tracer) == 0);
    puts("ok");
    return 0;
}
