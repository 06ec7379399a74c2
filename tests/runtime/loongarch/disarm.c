/* LoongArch: one bl, or pcaddu18i and jirl, which the linker relaxes to it. */
#include "oracle.h"

int disarm(byte *site) {
    unsigned first = code32(site);
    if (first >> 26 != 0x15 && !(first >> 25 == 0x0f && code32(site + 4) >> 26 == 0x13))
        return 0;
    put32(site, 0x03400000);
    if (first >> 26 != 0x15)
        put32(site + 4, 0x03400000);
    return 1;
}
