/* SuperH: the entry is a literal after a jump and its delay slot. It holds the hook's address, which
   can be replaced by that of the code after it, where the hook would return to; or its place in the
   GOT, and then the jump must be replaced by one to where it would return to, which is in r0. */
#include "oracle.h"

#define REACH 12

extern void HOOK(void);

int disarm(byte *site) {
    word hook = (word)code32(site);
    for (byte *slot = site - 2; slot > site - REACH; slot -= 2)
        if (code16(slot - 2) == 0x412b && code16(slot) == 0x402a) {
            if (hook == (word)HOOK)
                put32(site, (word)site + 4);
            else
                put16(slot - 2, 0x402b);
            return 1;
        }
    return 0;
}
