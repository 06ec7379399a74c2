/* x86: a call of 5 bytes, or of 6 through the GOT, which the linker turns into a call of 5 bytes
   with a prefix of no effect; or, in the large code model, a movabs and a call: of 13 bytes together,
   of 12 in clang's way, or of 13 or 14 through the GOT. */
#include "oracle.h"

int disarm(byte *site) {
    static const byte nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    static const byte nop6[] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
    static const byte jump12[] = {0xeb, 0x0a}, jump13[] = {0xeb, 0x0b}, jump14[] = {0xeb, 0x0c};
    int is_rax = site[0] == 0x48 && site[1] == 0xb8;
    if (site[0] == 0xe8)
        put(site, nop5, 5);
    else if ((site[0] == 0xff && (site[1] == 0x15 || site[1] == 0x93)) ||
             (site[0] == 0x67 && site[1] == 0xe8))
        put(site, nop6, 6);
    else if (site[0] == 0x49 && site[1] == 0xba && site[10] == 0x41 && site[12] == 0xd2)
        put(site, jump13, 2);
    else if (is_rax && site[10] == 0xff && site[11] == 0xd0)
        put(site, jump12, 2);
    else if (is_rax && site[10] == 0xff && site[11] == 0x14)
        put(site, jump13, 2);
    else if (is_rax && site[10] == 0x41 && site[11] == 0xff && site[12] == 0x14)
        put(site, jump14, 2);
    else
        return 0;
    return 1;
}
