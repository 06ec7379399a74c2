// Does what it's told by lines on its standard input, and answers each with a line. What it answers shows which versions of
// its functions it ran.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NI __attribute__((noinline, noclone))
static int counter = 7;
_Thread_local int local = 5;
// The compiler must not know it: clang would have hidden use it, and not pass it.
static const char *volatile word = "text";
static int gate[2];
static volatile int calls, mixed, running;
NI static int helper(int x) { return x + 1; }
NI int answer(int x) { counter++; return helper(x) * 2; }
NI static int hidden(const char *text) { return (int)strlen(text); }
NI void hold(void) {
    char byte;
    printf("held %d\n", (int)gettid());
    fflush(stdout);
    while (read(gate[0], &byte, 1) != 1)
        ;
}
NI int slow(int x) { hold(); return x + 1; }
NI int deep(int x) { return x ? deep(x - 1) + 1 : slow(1); }
NI int first(void) { return 1; }
NI int second(void) { return 1; }
static void linger(int n) { for (volatile int i = 0; i < n; i++); }
NI int both(void) { int one = first(); linger(200); return one * 10 + second(); }
__attribute__((noinline, patchable_function_entry(0))) int unhooked(int x) { return x; }
static void *waiter(void *data) {
    pthread_setname_np(pthread_self(), "waiter");
    printf("%d\n", data ? deep(20) : slow(1));
    fflush(stdout);
    return NULL;
}
static void *worker(void *data) {
    while (running) {
        int now = both();
        if (now != 11 && now != 22)
            mixed++;
        linger(2000);
        calls++;
    }
    return data;
}
static void handler(int number) { hold(); }
NI int signalled(int x) { raise(SIGUSR1); return x + 1; }
static void *on_other_stack(void *data) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    printf("%d\n", signalled(1));
    fflush(stdout);
    return NULL;
}
#ifdef OWN_START
// The C library's start file may have no landing pads.
int main(void);
__asm__(".globl _start\n_start: bti c\nmov x29, #0\nmov x30, #0\nmov x5, x0\nadrp x0, main\nadd x0, x0, :lo12:main\n"
        "ldr x1, [sp]\nadd x2, sp, #8\nmov x3, #0\nmov x4, #0\nmov x6, sp\nbl __libc_start_main\nudf #0");
#endif
int main(void) {
    char line[100];
    pthread_t thread, workers[4];
    /* If it hangs, it doesn't for ever. */
    alarm(1000);
    if (pipe(gate))
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "go\n")) {
            int one = answer(3), two = hidden(word);
            printf("%d %d %d %d %d\n", one, two, counter, local, unhooked(1));
        } else if (!strcmp(line, "hold\n") || !strcmp(line, "deep\n") || !strcmp(line, "signal\n")) {
            void *(*start)(void *) = line[0] == 's' ? on_other_stack : waiter;
            pthread_create(&thread, NULL, start, line[0] == 'd' ? line : NULL);
            continue;
        } else if (!strcmp(line, "free\n")) {
            if (write(gate[1], "", 1) != 1)
                return 1;
            pthread_join(thread, NULL);
            continue;
        } else if (!strcmp(line, "start\n")) {
            running = 1;
            for (int i = 0; i < 4; i++)
                pthread_create(&workers[i], NULL, worker, NULL);
            puts("started");
        } else if (!strcmp(line, "stop\n")) {
            running = 0;
            for (int i = 0; i < 4; i++)
                pthread_join(workers[i], NULL);
            printf("%s %d\n", calls ? "called" : "idle", mixed);
        } else {
            printf("%d\n", both());
        }
        fflush(stdout);
    }
    return 7;
}
