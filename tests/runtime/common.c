/* What every program of the oracle needs: printing without a C library, and where functions are. */
#include "oracle.h"

unsigned failures;

void say_text(const char *text) {
    unsigned size = 0;
    while (text[size])
        size++;
    say(text, size);
}

void say_number(word value, unsigned base) {
    char digits[24];
    unsigned at = sizeof digits;
    do {
        /* No division: it would be a library call on some processors. */
        word quotient = 0, rest = value;
        for (int bit = 8 * sizeof value - 1; bit >= 0; bit--)
            if ((rest >> bit) >= base) {
                rest -= (word)base << bit;
                quotient |= (word)1 << bit;
            }
        digits[--at] = "0123456789abcdef"[rest];
        value = quotient;
    } while (value);
    say(digits + at, sizeof digits - at);
}

void fail(const char *what, const char *name, word value) {
    failures++;
    say_text("FAIL ");
    say_text(name);
    say_text(": ");
    say_text(what);
    say_text(" 0x");
    say_number(value, 16);
    say_text("\n");
}

/* The first instruction of function I: not what a pointer to it holds, where that is a descriptor
   or has a mode bit. */
word start_of(unsigned i) {
    const void *function = *samples[i].function;
#if defined __powerpc64__ && _CALL_ELF != 2
    return *(const word *)function;
#elif defined __hppa__
    word address = (word)function;
    return address & 2 ? *(const word *)(address & ~(word)3) : address;
#elif defined __arm__ || defined __mips__
    return (word)function & ~(word)1;
#else
    return (word)function;
#endif
}
