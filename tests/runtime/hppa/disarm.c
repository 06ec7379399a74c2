/* PA-RISC: one b,l with 17 or 22 bits of distance, whose delay slot is then the next
   instruction. */
#include "oracle.h"

int disarm(byte *site) {
    unsigned branch = code32(site);
    if ((branch & 0xffe0e000) != 0xe8400000 && (branch & 0xfc00e000) != 0xe800a000)
        return 0;
    put32(site, 0x08000240);
    return 1;
}
