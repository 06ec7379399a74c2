/* The runtime check of patchable entries: the compiler's own table, as the linker leaves it, has one
   entry at the start of every function of the traced objects. */
#include "oracle.h"

#define MAX_SAMPLES 32
#define MAX_DISTANCE 32

extern const word __start___patchable_function_entries[] __attribute__((visibility("hidden")));
extern const word __stop___patchable_function_entries[] __attribute__((visibility("hidden")));

/* The calls that the hooks of this program would make, but nothing is traced. */
void count_hook(const void *return_address) {
    fail("hook call", "oracle", (word)return_address);
}

/* The index of the function that starts at ADDRESS or soon after it, or -1. The entries are before
   the function, for some of its NOPs are; in gcc's code for MIPS all of them. */
static int next(word address) {
    int found = -1;
    for (unsigned i = 0; i < sample_count; i++) {
        word start = start_of(i);
        if (address <= start && start - address <= MAX_DISTANCE &&
            (found < 0 || start < start_of(found)))
            found = i;
    }
    return found;
}

int main(void) {
    unsigned seen[MAX_SAMPLES] = {0};
    const word *end = __stop___patchable_function_entries;
    for (const word *entry = __start___patchable_function_entries; entry < end; entry++) {
        int i = next(*entry);
        if (i < 0)
            fail("entry far from every function", "table", *entry);
        else
            seen[i]++;
    }
    for (unsigned i = 0; i < sample_count; i++)
        if (seen[i] != (*samples[i].function != (const void *)exercise))
            fail("entries", samples[i].name, seen[i]);
    exercise();
    if (failures)
        return 1;
    say_text("ok ");
    say_number(end - __start___patchable_function_entries, 10);
    say_text(" sites\n");
    return 0;
}
