/* Prints what a program is made of as the loader left it: each entry of its table by function and
   distance, whether they ascend, and which functions called the hook. It trusts no tool. */
#include "oracle.h"

#define MAX_SAMPLES 32
#define MAX_FUNCTION 2048

extern const word __start___mcount_loc[] __attribute__((visibility("hidden")));
extern const word __stop___mcount_loc[] __attribute__((visibility("hidden")));

static unsigned calls[MAX_SAMPLES];
static unsigned stray_calls;

/* The function that contains ADDRESS, or -1. */
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

static void line(const char *what, const char *name, word value) {
    say_text(what);
    say_text(name);
    say_text(" ");
    say_number(value, 10);
    say_text("\n");
}

static void print_entry(word entry) {
    int i = owner(entry);
    if (!entry)
        say_text("entry 0\n");
    else if (i < 0)
        line("entry ", "nowhere", entry);
    else
        line("entry ", samples[i].name, entry - start_of(i));
}

int main(void) {
    /* Not two symbols to the compiler, which would know that they differ. */
    const word *volatile start = __start___mcount_loc, *volatile stop = __stop___mcount_loc;
    unsigned descents = 0;
    for (const word *entry = start; entry < stop; entry++) {
        print_entry(*entry);
        descents += entry > start && entry[-1] > *entry;
    }
    line("descents", "", descents);
    long result = exercise();
    for (unsigned i = 0; i < sample_count; i++)
        line("calls ", samples[i].name, calls[i]);
    line("calls ", "elsewhere_than_in_samples", stray_calls);
    line("result", "", result);
    return 0;
}
