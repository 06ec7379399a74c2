/* 32-bit Arm: the entry is the bl, which the linker makes a blx where the hook is of the other
   kind. The push {lr} before it, if there is one, must go too, for the hook would have popped it. */
#include "oracle.h"

#define GCC_PUSH 0xe52de004
#define CLANG_PUSH 0xe92d4000

static int arm_call(unsigned instruction) {
    return instruction >> 24 == 0xeb || instruction >> 25 == 0x7d;
}

int disarm(byte *site) {
    unsigned first = code16(site), second = code16(site + 2), before = code32(site - 4);
    /* Half of a Thumb blx may look like an Arm bl; a push before it does not. */
    int thumb = first >> 11 == 0x1e && second >> 14 == 3;
    if (arm_call(code32(site)) && !(thumb && code16(site - 2) == 0xb500)) {
        if (before == GCC_PUSH || before == CLANG_PUSH)
            put32(site - 4, 0xe1a00000);
        put32(site, 0xe1a00000);
    } else if (thumb) {
        if (code16(site - 2) == 0xb500)
            put16(site - 2, 0xbf00);
        put16(site, 0xbf00);
        put16(site + 2, 0xbf00);
    } else {
        return 0;
    }
    return 1;
}
