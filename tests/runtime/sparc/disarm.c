/* SPARC: one call, whose delay slot is then the next instruction. */
#include "oracle.h"

int disarm(byte *site) {
    if (code32(site) >> 30 != 1)
        return 0;
    put32(site, 0x01000000);
    return 1;
}
