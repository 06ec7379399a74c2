/* Threads run out of stack, and handle it on another one. The end of each stack is a page below an address where shadows of a new
 * piece of it are needed (64 KiB), and each comes to it with another distance left: some have just as much as a function without a
 * hook would need. */
#include "hits.h"
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
TRUTH()
enum { PIECE = 64 << 10, ROOM = 4 * PIECE, COUNT = 128 };
static __thread sigjmp_buf back;
static volatile int faults;
QUIET static void fault(int signal) { siglongjmp(back, 1); }
NI static int overflow(int n) {
    HIT();
    volatile char pad[4096];
    pad[n & 4095] = n;
    int r = n == 1 << 30 ? 0 : overflow(n + 1);
    return r + pad[n & 4095];
}
QUIET static void *use(void *number) {
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    volatile char *shift = alloca(64 * (long)number + 1);
    *shift = 0;
    if (sigsetjmp(back, 1) == 0)
        overflow(0);
    else
        faults++;
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    char *all = mmap(0, (COUNT + 1) * (long)ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    all += -(long)all & (PIECE - 1);
    for (long i = 0; i < COUNT; i++) {
        pthread_t thread;
        pthread_attr_t attributes;
        char *start = all + i * ROOM + PIECE - 4096, *end = all + (i + 1) * ROOM - PIECE;
        pthread_attr_init(&attributes);
        if (mprotect(start, end - start, PROT_READ | PROT_WRITE) ||
            pthread_attr_setstack(&attributes, start, end - start) ||
            pthread_create(&thread, &attributes, use, (void *)i) || pthread_join(thread, 0))
            return 3;
    }
    printf("%d\n", faults);
    return faults != COUNT;
}
