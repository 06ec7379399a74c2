/* RISC-V: auipc and jalr, or the jal or c.jal that the linker relaxes them to; all link in ra. */
#include "oracle.h"

int disarm(byte *site) {
    unsigned first = code16(site);
    if ((first & 0xfff) == 0x097 && (code32(site + 4) & 0xfffff) == 0x080e7) {
        put32(site, 0x00000013);
        put32(site + 4, 0x00000013);
    } else if ((first & 0xfff) == 0x0ef) {
        put32(site, 0x00000013);
    } else if (sizeof(word) == 4 && (first & 0xe003) == 0x2001) {
        put16(site, 0x0001);
    } else {
        return 0;
    }
    return 1;
}
