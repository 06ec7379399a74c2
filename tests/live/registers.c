/* A function that changes all registers is called by one that sets them all, and each sees what the other has set: with
 * handlers in between that spoil whatever a function may. */
#include "check.h"
#include <cpuid.h>
#include <errno.h>

enum { AREA = 4096, WORDS = 16 };
struct state {
    char vectors[AREA] __attribute__((aligned(64)));
    /* rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r12 r13 r14 r15 flags */
    uint64_t words[WORDS];
};
/* What the caller sets and the function sees, what the function sets and the caller sees. */
struct state set, seen, set_back, seen_back;
uint64_t mask, kept[8];

#define EACH(op, area)                                                                        \
    op("rax", area, 0) op("rbx", area, 1) op("rcx", area, 2) op("rdx", area, 3) op("rsi", area, 4) \
    op("rdi", area, 5) op("rbp", area, 6) op("r8", area, 7) op("r9", area, 8) op("r10", area, 9)   \
    op("r12", area, 10) op("r13", area, 11) op("r14", area, 12) op("r15", area, 13)
#define STORE(register, area, n) "movq %" register ", 4096+8*" #n "+" area "(%rip)\n"
#define LOAD(register, area, n) "movq 4096+8*" #n "+" area "(%rip), %" register "\n"

/* %r11 is scratch, and so are %rax and %rdx of the side that looks, once they're stored. */
__asm__(".text\n.balign 16\n.type call_it, @function\ncall_it:\n"
        "pushq %rbx\n pushq %rbp\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n subq $8, %rsp\n"
        "movl mask(%rip), %eax\n xorl %edx, %edx\n xrstor64 set(%rip)\n" EACH(LOAD, "set")
        "call function\n"
        EACH(STORE, "seen_back") "pushfq\n popq 4096+8*14+seen_back(%rip)\n"
        "movl mask(%rip), %eax\n xorl %edx, %edx\n xsave64 seen_back(%rip)\n fninit\n ldmxcsr usual(%rip)\n"
        "addq $8, %rsp\n popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbp\n popq %rbx\n ret\n"
        ".size call_it, . - call_it\n"
        "usual: .long 0x1f80\n");
void call_it(void);

/* Callee-saved registers come back as they were set, since the function doesn't change them. */
__asm__(".text\n.balign 16\nbody:\n" EACH(STORE, "seen") "pushfq\n popq 4096+8*14+seen(%rip)\n"
        "movl mask(%rip), %eax\n xorl %edx, %edx\n xsave64 seen(%rip)\n"
        "movl mask(%rip), %eax\n xorl %edx, %edx\n xrstor64 set_back(%rip)\n" LOAD("rax", "set_back", 0)
        LOAD("rcx", "set_back", 2) LOAD("rdx", "set_back", 3) LOAD("rsi", "set_back", 4) LOAD("rdi", "set_back", 5)
        LOAD("r8", "set_back", 7) LOAD("r9", "set_back", 8) LOAD("r10", "set_back", 9) "ret\n");

/* The compiler makes the hook, and nothing else. */
__attribute__((naked, noinline)) void function(void) { __asm__("jmp body"); }

static volatile unsigned long entries, exits;

BARE static void spoil(void)
{
    errno = 1;
    __asm__ volatile("fldpi\n fld1\n fdivp\n fstp %%st(0)\n movl $-1, %%eax\n movl %%eax, %%ecx\n movl %%eax, %%edx\n"
                     "movl %%eax, %%esi\n movl %%eax, %%edi\n movl %%eax, %%r8d\n movl %%eax, %%r9d\n"
                     "movl %%eax, %%r10d\n movl %%eax, %%r11d\n pcmpeqd %%xmm0, %%xmm0\n"
                     ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movaps %%xmm0, %%xmm\\n\n .endr\n"
                     /* An inexact and an invalid result */
                     "movl $3, %%eax\n cvtsi2sd %%eax, %%xmm1\n movl $1, %%eax\n cvtsi2sd %%eax, %%xmm2\n"
                     "divsd %%xmm1, %%xmm2\n xorps %%xmm3, %%xmm3\n divsd %%xmm3, %%xmm3\n" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
    if (mask & 4)
        __asm__ volatile("vcmptrueps %%ymm0, %%ymm0, %%ymm0\n"
                         ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovaps %%ymm0, %%ymm\\n\n .endr\n" ::: "memory");
    if (mask & 0x80)
        __asm__ volatile("vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n"
                         ".irp n, 1,5,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
                         "vmovdqu64 %%zmm0, %%zmm\\n\n .endr\n"
                         ".irp n, 0,1,2,3,4,5,6,7\n kxnorw %%k\\n, %%k\\n, %%k\\n\n .endr\n" ::: "memory");
}
/* Are these the vector registers of that state? What isn't in use is zero. */
BARE static int are(const union mcount_vector *vectors, const struct state *state, int part)
{
    static const char zeroes[256];
    uint64_t in_use = *(const uint64_t *)(state->vectors + 512);
    return !vectors || !memcmp(vectors, in_use >> part & 1 ? state->vectors + (part == 1 ? 160 : 576) : zeroes, 256);
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    entries++;
    CHECK(call->registers.rdi == set.words[5] && call->registers.r10 == set.words[9]);
    CHECK(!call->vectors == !data);
    CHECK(are(call->vectors, &set, 1) && are(call->vectors_high, &set, 2));
    spoil();
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    CHECK(call->registers.rax == set_back.words[0] && call->registers.rdx == set_back.words[3]);
    CHECK(are(call->vectors, &set_back, 1) && are(call->vectors_high, &set_back, 2));
    spoil();
}

/* A state in which everything that can differ does. */
BARE static void fill(struct state *state, int salt, int depth, uint64_t in_use)
{
    memset(state, 0, sizeof *state);
    for (int i = 160; i < AREA; i++)
        state->vectors[i] = (char)(i * 7 + salt);
    memset(state->vectors + 416, 0, 576 - 416);
    *(uint64_t *)(state->vectors + 512) = in_use & mask;
    *(uint16_t *)state->vectors = 0x0b7f;
    *(uint16_t *)(state->vectors + 2) = (uint16_t)((8 - depth) % 8 << 11 | 0x20);
    state->vectors[4] = (char)(depth == 2 ? 0xc0 : 0);
    *(uint32_t *)(state->vectors + 24) = 0x5f84;
    for (int i = 0; i < 8; i++) {
        char *at = state->vectors + 32 + 16 * i;
        memset(at, 0, 16);
        if (i < depth) {
            at[7] = (char)0x80;
            at[0] = (char)(i + salt);
            at[9] = 0x3f;
        }
    }
    for (int i = 0; i < WORDS; i++)
        state->words[i] = 0x0123456789abcd00u * (unsigned)(salt + 1) + (unsigned)i;
}
/* Is what was seen what was set? Where x87's last instruction was doesn't matter. */
BARE static void compare(const struct state *one, const struct state *other, const char *what, unsigned callee_saved)
{
    uint64_t in_use = *(const uint64_t *)(one->vectors + 512);
    int depth = in_use & 1 ? __builtin_popcount((unsigned char)one->vectors[4]) : 0;
    for (int i = 0; i < AREA; i++) {
        /* Nobody can see what's in an empty register of x87. */
        if (i >= 32 + 16 * depth && i < 160)
            continue;
        if ((i >= 5 && i < 24) || (i >= 28 && i < 32) || (i >= 416 && i < 576))
            continue;
        int part = i < 160 ? 0 : i < 416 ? 1 : i < 832 ? 2 : 8;
        if (part == 8) {
            unsigned a, b, c, d;
            for (int k = 5; k < 8; k++)
                if (__get_cpuid_count(13, (unsigned)k, &a, &b, &c, &d) && i >= (int)b && i < (int)(b + a))
                    part = k;
        }
        if (part == 8 || !(mask >> part & 1))
            continue;
        char expected = in_use >> part & 1 || i == 24 || i == 25 ? one->vectors[i] : 0;
        if (!(in_use & 1) && i < 5)
            expected = (char)(i == 0 ? 0x7f : i == 1 ? 3 : 0);
        if (other->vectors[i] != expected) {
            fprintf(stderr, "%s: byte %d of state %d: %02x instead of %02x\n", what, i, part,
                    (unsigned char)other->vectors[i], (unsigned char)expected);
            exit(1);
        }
    }
    for (int i = 0; i < 14; i++)
        if (!(callee_saved >> i & 1) && one->words[i] != other->words[i]) {
            fprintf(stderr, "%s: register %d\n", what, i);
            exit(1);
        }
    CHECK(!(other->words[14] & 0x400));
}
BARE int main(void)
{
    unsigned a = 0, b, c = 0, d;
    /* rbx rbp r12 to r15 */
    const unsigned SAVED = 1 << 1 | 1 << 6 | 0xf << 10;
    __get_cpuid(1, &a, &b, &c, &d);
    if (!(c >> 27 & 1)) {
        puts("no XSAVE");
        return 0;
    }
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    mask = a & 0xe7;
    static const uint64_t in_use[] = {0xe7, 0x7, 0x3, 0xa2, 0x6, 0x0};
    for (unsigned flags = 0; flags < 2; flags++) {
        mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, flags ? &mask : 0, flags);
        CHECK(mcount_arm(tracer, "function") == 1);
        for (unsigned i = 0; i < 6; i++)
            for (int depth = 0; depth < 3; depth++) {
                fill(&set, 3 + depth, in_use[i] & 1 ? depth : 0, in_use[i]);
                fill(&set_back, 90 + depth, in_use[i] & 1 ? 2 - depth : 0, in_use[5 - i]);
                if (!(in_use[5 - i] & 1))
                    fill(&set_back, 90 + depth, 0, in_use[5 - i]);
                errno = 5;
                call_it();
                CHECK(errno == 5);
                compare(&set, &seen, "at the entry", 0);
                compare(&set_back, &seen_back, "at the exit", SAVED);
                for (int n = 0; n < 14; n++)
                    if (SAVED >> n & 1)
                        CHECK(seen_back.words[n] == set.words[n]);
            }
        CHECK(entries == 18 * (flags + 1) && exits == entries);
        CHECK(mcount_close(tracer) == 0);
    }
    puts("ok");
    return 0;
}
