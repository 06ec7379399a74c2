/* The runtime oracle: walks the table between __start___mcount_loc and __stop___mcount_loc, and
   proves each entry by making its hook a NOP: exactly the calls of the function that contains it
   must disappear, and the program must compute what it computed before. */
#include "oracle.h"

#define MAX_SAMPLES 32
#define MAX_FUNCTION 2048
#define MAX_UNDO 64

extern const word __start___mcount_loc[] __attribute__((visibility("hidden")));
extern const word __stop___mcount_loc[] __attribute__((visibility("hidden")));

static unsigned calls[MAX_SAMPLES];
static unsigned stray_calls;
static struct { byte *place; byte old; } undo_log[MAX_UNDO];
static unsigned undo_size;

/* The index of the function that contains ADDRESS, or -1. */
static int owner(word address) {
    int found = -1;
    for (unsigned i = 0; i < sample_count; i++) {
        word start = start_of(i);
        if (start <= address && address - start < MAX_FUNCTION &&
            (found < 0 || start > start_of(found)))
            found = i;
    }
    return found;
}

void count_hook(const void *return_address) {
    int i = owner((word)return_address);
    if (i < 0)
        stray_calls++;
    else
        calls[i]++;
}

void put(void *place, const void *bytes, unsigned size) {
    if (!make_writable(place, size) || undo_size + size > MAX_UNDO) {
        fail("cannot write the code at", "oracle", (word)place);
        return;
    }
    for (unsigned i = 0; i < size; i++) {
        byte *target = (byte *)place + i;
        undo_log[undo_size].place = target;
        undo_log[undo_size++].old = *target;
        *target = ((const byte *)bytes)[i];
    }
    flush(place, size);
}

static void undo(void) {
    while (undo_size) {
        undo_size--;
        *undo_log[undo_size].place = undo_log[undo_size].old;
        flush(undo_log[undo_size].place, 1);
    }
}

/* The order of the bytes of an instruction, which is not always that of data: 64-bit Arm and
   32-bit Arm since version 6 (BE8) have little-endian instructions only, RISC-V too. */
#if defined __aarch64__ || defined __riscv || (defined __arm__ && !defined CODE_BIG) || \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CODE_LITTLE 1
#else
#define CODE_LITTLE 0
#endif

unsigned code16(const byte *place) {
    return CODE_LITTLE ? place[0] | place[1] << 8 : place[1] | place[0] << 8;
}

unsigned code32(const byte *place) {
    return CODE_LITTLE ? code16(place) | code16(place + 2) << 16
                       : code16(place + 2) | code16(place) << 16;
}

void put16(byte *place, unsigned instruction) {
    byte low = instruction, high = instruction >> 8;
    byte bytes[2] = {CODE_LITTLE ? low : high, CODE_LITTLE ? high : low};
    put(place, bytes, 2);
}

void put32(byte *place, unsigned instruction) {
    put16(place, CODE_LITTLE ? instruction : instruction >> 16);
    put16(place + 2, CODE_LITTLE ? instruction >> 16 : instruction);
}

static long run(unsigned *counts) {
    for (unsigned i = 0; i < sample_count; i++)
        calls[i] = 0;
    stray_calls = 0;
    long result = exercise();
    for (unsigned i = 0; i < sample_count; i++)
        counts[i] = calls[i];
    if (stray_calls)
        fail("hook calls from elsewhere", "oracle", stray_calls);
    return result;
}

/* Every function has the entries it must have, before any is trusted to be written to. */
static void check_owners(unsigned count, const unsigned *base) {
    unsigned seen[MAX_SAMPLES] = {0};
    for (unsigned i = 0; i < count; i++) {
        int o = owner(__start___mcount_loc[i]);
        if (o < 0)
            fail("entry outside every function", "table", __start___mcount_loc[i]);
        else
            seen[o]++;
    }
    for (unsigned i = 0; i < sample_count; i++) {
        if (seen[i] != (unsigned)samples[i].traced)
            fail("entries", samples[i].name, seen[i]);
        if (!base[i] != !samples[i].traced)
            fail("hook calls", samples[i].name, base[i]);
    }
}

static void check_entry(word site, const unsigned *base, long result) {
    unsigned counts[MAX_SAMPLES];
    int o = owner(site);
    if (!disarm((byte *)site)) {
        fail("is no hook", samples[o].name, site - start_of(o));
    } else {
        if (run(counts) != result)
            fail("computes something else without its hook", samples[o].name, site);
        for (unsigned i = 0; i < sample_count; i++)
            if (counts[i] != ((int)i == o ? 0 : base[i]))
                fail("hook calls with one NOP", samples[i].name, counts[i]);
    }
    undo();
}

int main(void) {
    unsigned base[MAX_SAMPLES], counts[MAX_SAMPLES];
    unsigned count = __stop___mcount_loc - __start___mcount_loc;
    long result = run(base);
    check_owners(count, base);
    for (unsigned i = 0; i < count && !failures; i++)
        check_entry(__start___mcount_loc[i], base, result);
    if (run(counts) != result)
        fail("computes something else at the end", "oracle", 0);
    for (unsigned i = 0; i < sample_count; i++)
        if (counts[i] != base[i])
            fail("hook calls at the end", samples[i].name, counts[i]);
    if (failures)
        return 1;
    say_text("ok ");
    say_number(count, 10);
    say_text(" sites\n");
    return 0;
}
