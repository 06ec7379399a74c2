// Threads call functions again and again that begin in different ways, and look whether each of them returns what it should, with
// registers as they were. Signals come meanwhile, and look at the stack. A line with anything is answered by how many times each function was
// called, how often something was wrong, and of each function whether it begins with other bytes than at the start.

#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

typedef long function(long *, long);
function pushes, lowers, restores, twice, subtracts, leaf, jumps, stays;
long checked(function *, long *, long, long *failed);

#define FUNCTION(name, body)                                                                                           \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" body       \
            "\n.cfi_endproc\n.size " #name ", . - " #name "\n")
#define PUSH(register) "push %" #register "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset " #register ", 0\n"
#define POP(register) "pop %" #register "\n.cfi_adjust_cfa_offset -8\n.cfi_restore " #register "\n"

FUNCTION(pushes, PUSH(rbp) "mov %rsp, %rbp\n" PUSH(r15) "mov %rdi, %r15\n mov 8(%r15), %rax\n add %rsi, %rax\n"
         POP(r15) POP(rbp) "ret");
// As distances, the first bytes are negative up to where %rbp is pushed.
FUNCTION(lowers, PUSH(r12) PUSH(rbp) "mov %rdi, %rbp\n" PUSH(rbx) "mov %rsi, %rbx\n mov (%rbp), %rax\n"
         "sub %rbx, %rax\n" POP(rbx) POP(rbp) POP(r12) "ret");
// The same up to the number.
FUNCTION(restores, PUSH(rbp) "mov %rdi, %rbp\n mov $0x6a0085a0, %eax\n mov (%rbp), %rax\n lea (%rax,%rsi), %rax\n"
         POP(rbp) "ret");
FUNCTION(twice, "xor %edx, %edx\n mov %rdi, %rax\n mov 8(%rdi), %rcx\n lea (%rcx,%rsi), %rax\n add %rdx, %rax\n ret");
FUNCTION(subtracts, "sub $24, %rsp\n.cfi_adjust_cfa_offset 24\n mov %rsi, 8(%rsp)\n mov (%rdi), %rax\n"
         "xor 8(%rsp), %rax\n add $24, %rsp\n.cfi_adjust_cfa_offset -24\n ret");
FUNCTION(leaf, "lea (%rdi,%rsi), %rax\n ret\n .p2align 3\n mov (%rdi), %rax\n sub %rsi, %rax\n ret");

// Nothing but a jump, to a place in the middle of another function.
FUNCTION(jumps, ".byte 0xe9\n.long leaf + 8 - . - 4");

// As a jump, its first instruction would lead to what's behind it.
FUNCTION(stays, "mov $1, %eax\n lea 1(%rdi,%rsi), %rax\n ret");

// Calls a function with registers that it has to leave as they are.
FUNCTION(checked, PUSH(rbx) PUSH(rbp) PUSH(r12) PUSH(r13) PUSH(r14) PUSH(r15)
         "sub $24, %rsp\n.cfi_adjust_cfa_offset 24\n mov %rcx, (%rsp)\n mov %rdi, %rax\n mov %rsi, %rdi\n"
         "mov %rdx, %rsi\n mov $101, %ebx\n mov $102, %ebp\n mov $112, %r12d\n mov $113, %r13d\n mov $114, %r14d\n"
         "mov %rsp, %r15\n call *%rax\n mov (%rsp), %rcx\n cmp %rsp, %r15\n jne 1f\n cmp $101, %rbx\n jne 1f\n"
         "cmp $102, %rbp\n jne 1f\n cmp $112, %r12\n jne 1f\n cmp $113, %r13\n jne 1f\n cmp $114, %r14\n je 2f\n"
         "1: incq (%rcx)\n 2: add $24, %rsp\n.cfi_adjust_cfa_offset -24\n"
         POP(r15) POP(r14) POP(r13) POP(r12) POP(rbp) POP(rbx) "ret");

#define COUNT 8
static function *const all[COUNT] = {pushes, lowers, restores, twice, subtracts, leaf, jumps, stays};
static unsigned char code[COUNT][16];
static long counts[COUNT], failed;

// Isn't this function as it was?
static int changed(int one) {
    return memcmp(code[one], (const void *)all[one], sizeof code[one]) != 0;
}

static void *work(void *unused) {
    long wrong = 0, seen = 0;
    for (long round = 1;; round++) {
        long values[2] = {round * 3, round * 5};
        wrong += checked(pushes, values, round, &wrong) != round * 6;
        wrong += checked(lowers, values, round, &wrong) != round * 2;
        wrong += checked(restores, values, round, &wrong) != round * 4;
        wrong += checked(twice, values, round, &wrong) != round * 6;
        wrong += checked(subtracts, values, round, &wrong) != (round * 3 ^ round);
        wrong += checked(leaf, values, round, &wrong) != (long)values + round;
        wrong += checked(jumps, values, round, &wrong) != round * 2;
        wrong += checked(stays, values, round, &wrong) != (long)values + round + 1;
        if (round % 256 == 0)
            for (int one = 0; one < COUNT; one++)
                __atomic_fetch_add(&counts[one], 256, __ATOMIC_RELAXED);
        if (wrong != seen) {
            __atomic_fetch_add(&failed, wrong - seen, __ATOMIC_RELAXED);
            seen = wrong;
        }
    }
    return unused;
}

static void look(int signal) {
    void *stack[64];
    int depth = backtrace(stack, 64);
    (void)signal, (void)depth;
}

int main(int count, char **arguments) {
    void *none;
    backtrace(&none, 1);
    for (int one = 0; one < COUNT; one++)
        memcpy(code[one], (const void *)all[one], sizeof code[one]);
    struct sigaction action = {.sa_handler = look, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, 0);
    for (int threads = count > 1 ? atoi(arguments[1]) : 1; threads; threads--) {
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
    }
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &often, 0);
    puts("ready");
    fflush(stdout);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("%ld%09ld", (long)now.tv_sec, now.tv_nsec);
        for (int one = 0; one < COUNT; one++)
            printf(" %ld", __atomic_load_n(&counts[one], __ATOMIC_RELAXED));
        printf(" %ld", __atomic_load_n(&failed, __ATOMIC_RELAXED));
        for (int one = 0; one < COUNT; one++)
            printf(" %d", changed(one));
        puts("");
        fflush(stdout);
    }
}
