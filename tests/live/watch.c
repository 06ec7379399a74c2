/* Shows all functions of the program that it's linked into to handlers, which count them. What they have counted goes
 * to the file that the variable WATCHED names, in lines "process function entries exits", and then "process - missed 0".
 * TRACED names a trace, in which the same functions are recorded. Either may be missing. */
#include "check.h"
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

enum { MOST = 1024 };
static struct count {
    const struct mcount_function *function;
    unsigned long entries, exits;
} counts[MOST];
static uint64_t missed_before;

BARE static struct count *count_of(const struct mcount_function *function)
{
    unsigned start = (unsigned)((uintptr_t)function >> 4) * 2654435761u;
    for (unsigned i = 0; i < MOST; i++) {
        struct count *count = &counts[(start + i) % MOST];
        const struct mcount_function *none = 0;
        if (__atomic_compare_exchange_n(&count->function, &none, function, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST) ||
            none == function)
            return count;
    }
    abort();
}
/* Whatever a function may change that is called, these do. */
BARE static void spoil(void)
{
    errno = 1234;
#ifdef __aarch64__
    __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n mov x\\n, #-1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
                     "movi v\\n\\().16b, #0xff\n .endr\n" ::
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                           "x14", "x15", "x16", "x17", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17",
                           "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                           "v31", "cc", "memory");
#elif defined(__riscv)
    __asm__ volatile(".irp n, 0,1,2,3,4,5,6\n li t\\n, -1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7\n li a\\n, -1\n fmv.d.x fa\\n, t0\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11\n fmv.d.x ft\\n, t0\n .endr\n"
                     "fsflags t0\n" ::
                         : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
                           "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "ft0", "ft1", "ft2", "ft3", "ft4",
                           "ft5", "ft6", "ft7", "ft8", "ft9", "ft10", "ft11", "memory");
#elif defined __loongarch__
    __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8\n li.w $t\\n, -1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7\n li.w $a\\n, -1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
                     "vseq.b $vr\\n, $vr\\n, $vr\\n\n .endr\n"
                     "lu12i.w $t0, 0x1f1f0\n movgr2fcsr $fcsr2, $t0\n" ::
                         : "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8", "$a0", "$a1", "$a2", "$a3",
                           "$a4", "$a5", "$a6", "$a7", "$f0", "$f1", "$f2", "$f3", "$f4", "$f5", "$f6", "$f7", "$f8",
                           "$f9", "$f10", "$f11", "$f12", "$f13", "$f14", "$f15", "$f16", "$f17", "$f18", "$f19",
                           "$f20", "$f21", "$f22", "$f23", "memory");
#elif defined __powerpc64__
    __asm__ volatile(".irp n, 0,3,4,5,6,7,8,9,10,11,12\n li \\n, -1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13\n xxlxor \\n, \\n, \\n\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19\n vxor \\n, \\n, \\n\n .endr\n" ::
                         : "r0", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "ctr", "cr0", "vs0",
                           "vs1", "vs2", "vs3", "vs4", "vs5", "vs6", "vs7", "vs8", "vs9", "vs10", "vs11", "vs12",
                           "vs13", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
                           "v13", "v14", "v15", "v16", "v17", "v18", "v19", "memory");
#elif defined __s390x__
    __asm__ volatile(".irp n, 0,1,2,3,4,5\n lghi %%r\\n, -1\n .endr\n"
                     ".irp n, 0,1,2,3,4,5,6,7\n ldgr %%f\\n, %%r0\n .endr\n" ::
                         : "r0", "r1", "r2", "r3", "r4", "r5", "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "cc",
                           "memory");
#elif defined __arm__
    __asm__ volatile("mvn r0, #0\n mov r1, r0\n mov r2, r0\n mov r3, r0\n mov ip, r0\n mov lr, r0\n"
                     ".irp n, 0,1,2,3,4,5,6,7\n vmov d\\n, r0, r0\n .endr\n vmsr fpscr, r0\n" ::
                         : "r0", "r1", "r2", "r3", "ip", "lr", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "cc",
                           "memory");
#elif defined __i386__
    __asm__ volatile("pxor %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n movaps %%xmm1, %%xmm2\n movaps %%xmm1, %%xmm3\n"
                     "movaps %%xmm1, %%xmm4\n movaps %%xmm1, %%xmm5\n movaps %%xmm1, %%xmm6\n movaps %%xmm1, %%xmm7\n"
                     "fldpi\n fld1\n fdivp\n fstp %%st(0)\n"
                     "movl $-1, %%eax\n movl %%eax, %%ecx\n movl %%eax, %%edx\n" ::
                         : "eax", "ecx", "edx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc",
                           "memory");
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7\n vcmptrueps %%ymm\\n, %%ymm\\n, %%ymm\\n\n .endr\n" ::: "xmm0", "xmm1",
                         "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
#else
    __asm__ volatile("pxor %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n movaps %%xmm1, %%xmm2\n movaps %%xmm1, %%xmm3\n"
                     "movaps %%xmm1, %%xmm4\n movaps %%xmm1, %%xmm5\n movaps %%xmm1, %%xmm6\n movaps %%xmm1, %%xmm7\n"
                     "fldpi\n fld1\n fdivp\n fstp %%st(0)\n"
                     "movl $-1, %%eax\n movl %%eax, %%ecx\n movl %%eax, %%edx\n movl %%eax, %%esi\n movl %%eax, %%edi\n"
                     "movl %%eax, %%r8d\n movl %%eax, %%r9d\n movl %%eax, %%r10d\n movl %%eax, %%r11d\n" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                           "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc", "memory");
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile(".irp n, 0,1,2,3,4,5,6,7\n vcmptrueps %%ymm\\n, %%ymm\\n, %%ymm\\n\n .endr\n" ::: "xmm0", "xmm1",
                         "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
#endif
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    __atomic_fetch_add(&count_of(call->function)->entries, 1, __ATOMIC_RELAXED);
    call->data = call->stack ^ (uintptr_t)call->function;
    spoil();
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    if (call->data != (call->stack ^ (uintptr_t)call->function))
        abort();
    __atomic_fetch_add(&count_of(call->function)->exits, 1, __ATOMIC_RELAXED);
    spoil();
}
/* Called by hits.h: 1 at the end, 0 in a new child. */
BARE void watched_(int is_end)
{
    if (!getenv("WATCHED"))
        return;
    if (!is_end) {
        for (int i = 0; i < MOST; i++)
            counts[i].entries = counts[i].exits = 0;
        missed_before = mcount_missed();
        return;
    }
    FILE *file = fopen(getenv("WATCHED"), "a");
    for (int i = 0; i < MOST; i++) {
        if (!counts[i].function)
            continue;
        const char *name = counts[i].function->name;
        /* Instances of templates and operators aren't counted by the programs. */
        size_t length = strcspn(name, "(.");
        if (strcspn(name, "< ") < length)
            continue;
        for (const char *at; (at = strstr(name, "::")) && at < name + length;) {
            length -= at + 2 - name;
            name = at + 2;
        }
        fprintf(file, "%d %.*s %lu %lu\n", getpid(), (int)length, name, counts[i].entries, counts[i].exits);
    }
    fprintf(file, "%d - %lu 0\n", getpid(), (unsigned long)(mcount_missed() - missed_before));
    fclose(file);
}
__attribute__((constructor, no_instrument_function, patchable_function_entry(0))) static void watch(void)
{
    /* The trace ends when the program exits. */
    if (getenv("TRACED"))
        CHECK(mcount_arm(mcount_trace(getenv("TRACED")), "*") > 0);
    if (!getenv("WATCHED"))
        return;
    unsigned flags = getenv("VECTORS") ? MCOUNT_VECTORS : 0;
    CHECK(mcount_arm(mcount_handlers(on_entry, on_exit_, 0, flags), "*") > 0);
}
