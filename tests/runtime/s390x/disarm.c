/* s390x: the entry is the brasl; but with gcc's -pg it is the stg that opens the block, and the
   brasl is further on. The stg and the lg around it do no harm. */
#include "oracle.h"

int disarm(byte *site) {
    static const byte stg[] = {0xe3, 0xe0, 0xf0, 0x08, 0x00, 0x24};
    int opens_block = 1;
    for (unsigned i = 0; i < sizeof stg; i++)
        opens_block &= site[i] == stg[i];
    if (opens_block)
        site += code16(site + 6) == 0xc010 ? 12 : 6;
    if (code16(site) != 0xc0e5 && (opens_block || code16(site) != 0xc005))
        return 0;
    put16(site, 0xc004);
    return 1;
}
