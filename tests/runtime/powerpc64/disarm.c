/* 64-bit PowerPC: one bl, with or without the nop that the linker may want after it. */
#include "oracle.h"

int disarm(byte *site) {
    if ((code32(site) & 0xfc000003) != 0x48000001)
        return 0;
    put32(site, 0x60000000);
    return 1;
}
