/* There's no stack left while a call is being recorded in one of the rarer ways, and who handles that jumps out of it. Traces can be
 * ended and begun afterwards. */
#include "check.h"
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PIECE = 64 << 10, ROOM = 4 * PIECE, COUNT = 64 };
static __thread sigjmp_buf back;

NI int overflow(int n)
{
    volatile char pad[4096];
    pad[n & 4095] = n;
    int r = n == 1 << 30 ? 0 : overflow(n + 1);
    return r + pad[n & 4095];
}
NI long usual(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
BARE static void on_signal(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}
BARE static void *use(void *number)
{
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, 0) == 0);
    volatile char *shift = alloca(64 * (long)number + 1);
    *shift = 0;
    if (sigsetjmp(back, 1) == 0)
        overflow(0);
    return 0;
}
/* Each comes to the end of its stack with another distance left, where a new piece of it begins. */
BARE static void overflows(char *all)
{
    for (long i = 0; i < COUNT; i++) {
        pthread_t thread;
        pthread_attr_t attributes;
        char *start = all + i * ROOM + PIECE - 4096, *end = all + (i + 1) * ROOM - PIECE;
        pthread_attr_init(&attributes);
        CHECK(mprotect(start, end - start, PROT_READ | PROT_WRITE) == 0);
        CHECK(pthread_attr_setstack(&attributes, start, end - start) == 0);
        CHECK(pthread_create(&thread, &attributes, use, (void *)i) == 0);
        CHECK(pthread_join(thread, 0) == 0);
    }
}
BARE static void trace(const char *name, void (*act)(char *), char *data)
{
    mcount_tracer *tracer = mcount_trace(name);
    CHECK(tracer && mcount_arm(tracer, "*@") > 0);
    act(data);
    CHECK(usual(1) == 2);
    CHECK(mcount_close(tracer) == 0);
    remove(name);
}
BARE static void nothing(char *all) { (void)all; }
BARE int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    CHECK(sigaction(SIGSEGV, &action, 0) == 0);
    char *all = mmap(0, (COUNT + 1) * (long)ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(all != MAP_FAILED);
    all += -(long)all & (PIECE - 1);
    trace("first.mcount", overflows, all);
    trace("second.mcount", nothing, 0);
    puts("ok");
    return 0;
}
