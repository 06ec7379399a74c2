/* Stops at every instruction of traced calls, by the processor's trap flag, and takes a backtrace there, which has to reach
 * the bottom of the stack: a profiler's samples may be anywhere. */
#include "hits.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
TRUTH()

static int steps, broken;
static __thread void *bottom;
static __thread timer_t timer;
static __thread volatile sig_atomic_t is_on;

/* The compiler mustn't put anything into the red zone of who uses these. */
#define BEGIN() \
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orl $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")
#define END() \
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andl $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")

/* Code of which nothing is asked: what gcc says of the end of a function that aligns its stack is wrong. */
extern char __start_dynamic_code[], __stop_dynamic_code[];
/* Where jumps that lead to the tracer have no unwind information, a backtrace from there ends there. */
QUIET static int is_known(int n, void **frames) {
    Dl_info info;
    return n != 3 || dladdr(frames[2], &info);
}
/* Is the next instruction a system call by which SIGTRAP is blocked? A step is deadly then. */
QUIET static int is_blocking(const greg_t *registers) {
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    return code[0] == 0x0f && code[1] == 0x05 && registers[REG_RAX] == SYS_rt_sigprocmask
        && registers[REG_RDI] != SIG_UNBLOCK && registers[REG_RSI]
        && *(const unsigned long *)registers[REG_RSI] & 1UL << (SIGTRAP - 1);
}
/* So it goes on without, until a timer's signal comes, which is blocked as well for so long. */
QUIET static void go_on(greg_t *registers) {
    struct itimerspec soon = {.it_value.tv_nsec = 3000};
    if (!is_on)
        return;
    registers[REG_EFL] |= 0x100;
    if (is_blocking(registers)) {
        registers[REG_EFL] &= ~0x100;
        timer_settime(timer, 0, &soon, 0);
    }
}
QUIET static void on_timer(int s, siginfo_t *info, void *context) {
    (void)s, (void)info;
    go_on(((ucontext_t *)context)->uc_mcontext.gregs);
}
QUIET static void on_step(int s, siginfo_t *info, void *context) {
    (void)s, (void)info;
    void *frames[128];
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *here = (char *)registers[REG_RIP];
    if (registers[REG_EFL] & 0x100)
        go_on(registers);
    if (here >= __start_dynamic_code && here < __stop_dynamic_code)
        return;
    int n = backtrace(frames, 128);
    __atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED);
    if ((n > 3 && frames[n - 1] == bottom) || !is_known(n, frames))
        return;
    if (__atomic_fetch_add(&broken, 1, __ATOMIC_RELAXED) < 5 && getenv("SHOW_STEPS")) {
        dprintf(2, "step %d: %d frames:", steps, n);
        for (int i = 0; i < n; i++) {
            Dl_info module = {0};
            dladdr(frames[i], &module);
            dprintf(2, " %p %s+%lx", frames[i], module.dli_fname ? module.dli_fname : "?",
                    (long)frames[i] - (long)module.dli_fbase);
        }
        dprintf(2, "\n");
    }
}
QUIET static void begin(void) {
    void *frames[128];
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = gettid();
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    int n = backtrace(frames, 128);
    bottom = frames[n - 1];
}

NI static int leaf(int n) {
    HIT();
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
NI static int parent(int n) {
    HIT();
    return leaf(n) + leaf(n + 1) + (getppid() == -1);
}
/* Where its hook is behind its prologue, that has aligned the stack. */
NI __attribute__((section("dynamic_code"))) static int dynamic(int n) {
    HIT();
    __attribute__((aligned(64))) volatile char all[64];
    volatile char *more = __builtin_alloca((n & 15) + 1);
    more[n & 15] = all[n & 63] = 1;
    return parent(n) + more[n & 15] + all[n & 63];
}
NI static int tail(int n) {
    HIT();
    __asm__ volatile("" : "+r"(n));
    return dynamic(n + 2);
}
/* Stops at the first calls, and where the tracer's memory for a thread is full: after 4095 calls, and so many were made
 * before. With another number of those, it's full in another function. */
QUIET static int calls(int before) {
    /* So unwinders go by the frame pointer here, and the stack pointer may change. */
    volatile char *room = __builtin_alloca(before + 1);
    int sum = room[0] = 0;
    for (int i = 0; i < before; i++)
        sum += leaf(i);
    for (int i = 0; i < 840; i++) {
        is_on = i < 3 || (i >= 816 && i < 821);
        if (is_on)
            BEGIN();
        sum += tail(i);
        is_on = 0;
        END();
    }
    return sum;
}
QUIET static void *thread(void *before) {
    begin();
    calls((int)(long)before);
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGTRAP, &action, 0);
    action.sa_sigaction = on_timer;
    sigaction(SIGUSR1, &action, 0);
    begin();
    int sum = calls(0);
    pthread_t all[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&all[i], 0, thread, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], 0);
    printf("%d, %s, %d of them broken\n", sum, steps > 1000 ? "many steps" : "no steps", broken);
    return 0;
}
