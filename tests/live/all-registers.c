/* LoongArch: a watched function finds all registers as its caller left them, and its caller finds what it has returned, whatever
 * handlers do. Handlers see what they're to see, and change it. */
#include "check.h"
#include <sys/auxv.h>

struct all {
    uint64_t r[32];
    uint64_t flags; /* $fcsr0 */
    uint8_t v[32][32];
} __attribute__((aligned(8)));
/* What the caller has, what the function finds, what it returns, and what the caller finds then. */
struct all given, inside, returned, after;
/* What handlers leave everywhere. */
struct all spoilt;
/* Vector registers have 32 bytes, and not only 16. */
int has_wide;
extern char body[];
void call_body(void);
void spoil(void);

enum { A0 = 4, T8 = 20, FP = 22, SP = 3 };
static int changes;
static unsigned long entries, exits;

BARE static void fill(struct all *all, uint64_t seed, uint64_t flags)
{
    uint8_t *bytes = (uint8_t *)all;
    for (size_t i = 0; i < sizeof *all; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 56);
    }
    all->flags = flags;
}
BARE static void check_vectors(const struct all *found, const struct all *expected, int changed)
{
    for (int i = 0; i < 32; i++) {
        uint8_t bytes[32];
        memcpy(bytes, expected->v[i], 32);
        bytes[0] ^= (uint8_t)(changed && i < 16);
        bytes[15] ^= (uint8_t)(changed && i < 16);
        CHECK(!memcmp(found->v[i], bytes, has_wide ? 32 : 16));
    }
}
BARE static void check_registers(const struct all *found, const struct all *expected, int changed)
{
    for (int i = A0; i <= T8; i++)
        if (i < A0 + 8 || i >= 16)
            CHECK(found->r[i] == (expected->r[i] ^ (uint64_t)(changed && (i < A0 + 8 || i == T8))));
    CHECK(found->flags == expected->flags);
}
BARE static void check_kept(const struct all *found)
{
    CHECK(found->r[SP] == given.r[SP]);
    for (int i = FP; i < 32; i++)
        CHECK(found->r[i] == given.r[i]);
}
BARE static void look(struct mcount_call *call, const struct all *is)
{
    for (int i = 0; i < 8; i++)
        CHECK(call->registers.a[i] == is->r[A0 + i]);
    CHECK(call->registers.t8 == is->r[T8]);
    CHECK(!call->vectors == !changes);
    for (int i = 0; i < 16 && changes; i++)
        CHECK(!memcmp(&call->vectors[i], is->v[i], 16));
    for (int i = 0; i < 8 && changes; i++)
        call->registers.a[i] ^= 1;
    call->registers.t8 ^= (uint64_t)changes;
    for (int i = 0; i < 16 && changes; i++) {
        ((uint8_t *)&call->vectors[i])[0] ^= 1;
        ((uint8_t *)&call->vectors[i])[15] ^= 1;
    }
    spoil();
}
BARE static int on_entry(struct mcount_call *call, void *data)
{
    (void)data;
    entries++;
    CHECK(call->registers.fp == given.r[FP] && call->registers.sp == given.r[SP]);
    CHECK(call->registers.pc == (uint64_t)(uintptr_t)body);
    look(call, &given);
    return MCOUNT_CONTINUE;
}
BARE static void on_exit_(struct mcount_call *call, void *data)
{
    (void)data;
    exits++;
    look(call, &returned);
}
BARE static void call(uint64_t seed)
{
    /* All five flags, and none; rounding as usual. */
    fill(&given, seed, seed % 2 ? 0x1f0000 : 0);
    fill(&returned, seed + 1, seed % 2 ? 0 : 0x150000);
    fill(&spoilt, seed + 2, 0xa0000);
    memset(&inside, 0, sizeof inside);
    memset(&after, 0, sizeof after);
    call_body();
    check_registers(&inside, &given, changes);
    check_vectors(&inside, &given, changes);
    check_kept(&inside);
    check_registers(&after, &returned, changes);
    check_vectors(&after, &returned, changes);
    check_kept(&after);
}
BARE int main(int argc, char **argv)
{
    CHECK(argc == 3);
    unsigned long has = getauxval(AT_HWCAP);
    has_wide = has >> 5 & 1;
    CHECK(has >> 4 & 1);
    CHECK(has_wide == !strcmp(argv[1], "wide"));
    for (changes = 0; changes < 2; changes++) {
        mcount_tracer *tracer = mcount_handlers(on_entry, on_exit_, 0, changes ? MCOUNT_VECTORS : 0);
        entries = exits = 0;
        CHECK(mcount_arm(tracer, "body") == 1);
        for (uint64_t seed = 1; seed <= 10; seed++)
            call(seed);
        CHECK(entries == 10 && exits == 10);
        CHECK(mcount_close(tracer) == 0);
    }
    changes = 0;
    mcount_tracer *trace = mcount_trace(argv[2]);
    CHECK(trace && mcount_arm(trace, "body") == 1);
    for (uint64_t seed = 1; seed <= 10; seed++)
        call(seed);
    CHECK(mcount_close(trace) == 0);
    call(1);
    puts("ok");
    return 0;
}
