/* Works when it's told to by a line on its standard input, in several threads, and prints how often each function was
 * called for that. So whoever attaches to it between two lines knows what the trace is to have. */
#include "hits.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
TRUTH()
enum { THREADS = 3 };
static pthread_barrier_t barrier;
static volatile int is_end;
static long results[THREADS];

NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int deep(int n) {
    HIT();
    return n ? deep(n - 1) + leaf(n) : 0;
}
NI int target(int n) {
    HIT();
#ifdef ALIGNED
    /* So gcc aligns the stack first, and keeps a pointer to where it was. */
    __attribute__((aligned(64))) volatile char all[64];
    volatile char *more = __builtin_alloca(n % 100 + 1);
    more[0] = all[0] = 0;
#endif
    return leaf(n);
}
NI int jumps(int n) {
    HIT();
    return target(n + 1);
}
NI static void *other(void *p) {
    HIT();
    return (void *)(long)jumps((int)(long)p);
}
NI static long work(int n) {
    HIT();
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i) + jumps(i);
#ifdef CALLS
    for (int i = 0; i < n; i++) {
        __atomic_fetch_add(slot_("labs"), 1, __ATOMIC_RELAXED);
        if (labs(-i) != i)
            abort();
    }
#endif
    return sum + deep(200);
}
#ifdef SLEDS
/* Of LLVM's XRay: <xray/xray_interface.h>. */
int __xray_patch(void);
int __xray_unpatch(void);
#endif
#ifdef INSIDE
#include <signal.h>
#include <ucontext.h>
/* Called as `leaf`, it goes on behind the second NOP of that function's area; but not before a line has come. */
int into_leaf(int n);
__asm__("into_leaf: int3\n ret");
QUIET static void on_trap(int signal, siginfo_t *info, void *context) {
    char byte;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (long)target + 2;
    if (write(1, "inside\n", 7) == 7)
        while (read(0, &byte, 1) == 1 && byte != '\n')
            ;
}
#endif
QUIET static void *run(void *p) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (is_end)
            return 0;
        results[(long)p] = work(3000);
        pthread_barrier_wait(&barrier);
    }
}
QUIET static void say(void) {
    for (int i = 0; i < 64 && hits_[i].name; i++) {
        printf("%s %lu ", hits_[i].name, hits_[i].count);
        hits_[i].count = 0;
    }
    printf("\n");
    fflush(stdout);
}
/* Overwrites the code that an earlier trace has left. */
QUIET static int spoil(void) {
    char line[512], traps[8192];
    int count = 0, memory = open("/proc/self/mem", O_RDWR);
    FILE *maps = fopen("/proc/self/maps", "r");
    memset(traps, 0xcc, sizeof traps);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "r-xp") && strstr(line, "mcount-agent"))
            count += pwrite(memory, traps, sizeof traps, strtol(line, 0, 16)) == sizeof traps;
    fclose(maps);
    close(memory);
    return count;
}
QUIET int main(void) {
    char line[16];
    /* If it hangs, it doesn't for ever. */
    alarm(1000);
#ifdef NOT_DUMPABLE
    prctl(PR_SET_DUMPABLE, 0);
#endif
#ifdef IMPOSTOR
    /* What looks like the agent of an earlier trace, but for its code. */
    int fake = memfd_create("mcount-agent", MFD_CLOEXEC);
    char *at = (char *)0x300000000000;
    if (ftruncate(fake, 64 << 20) || pwrite(fake, "mcount-agent  1\n", 16, 0) != 16 || pwrite(fake, &at, 8, 16) != 8)
        return 2;
    mmap(at, 64 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fake, 0);
#endif
    pthread_t t[THREADS], one;
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], 0, run, (void *)i);
    printf("ready\n");
    fflush(stdout);
#ifdef INSIDE
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &trap, 0);
    setvbuf(stdin, 0, _IONBF, 0);
    if (!fgets(line, sizeof line, stdin) || into_leaf(41) != 42)
        return 3;
    hits_[0].count = hits_[1].count = 0;
    printf("outside\n");
    fflush(stdout);
#endif
    while (fgets(line, sizeof line, stdin)) {
        void *result;
#ifdef OPENS
        if (!strcmp(line, "open\n")) {
            printf("opened %d\n", dlopen(getenv("PLUGIN"), RTLD_NOW) != 0);
            fflush(stdout);
            continue;
        }
#endif
#ifdef SLEDS
        if (!strcmp(line, "patch\n") || !strcmp(line, "unpatch\n")) {
            printf("%d\n", *line == 'p' ? __xray_patch() : __xray_unpatch());
            fflush(stdout);
            continue;
        }
#endif
        if (!strcmp(line, "exec\n"))
            execl("/proc/self/exe", "served", (char *)0);
        if (!strcmp(line, "spoil\n")) {
            printf("spoilt %d\n", spoil());
            fflush(stdout);
            continue;
        }
        long sum = work(100);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        /* A thread that begins while it's traced. */
        if (pthread_create(&one, 0, other, (void *)5) || pthread_join(one, &result))
            return 3;
        for (int i = 0; i < THREADS; i++)
            sum += results[i];
        if (sum + (long)result != 27109407L) {
            printf("wrong %ld\n", sum + (long)result);
            return 4;
        }
        say();
    }
    is_end = 1;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
    return 7;
}
