/* 64-bit Arm: one bl. */
#include "oracle.h"

int disarm(byte *site) {
    if (code32(site) >> 26 != 0x25)
        return 0;
    put32(site, 0xd503201f);
    return 1;
}
