/* MIPS: the entry is the first instruction of the sequence: jal itself, or the load of the hook's
   address some instructions before a jalr, which the linker may turn into a bal. On o32 the room
   that the hook would have given back must be given back in place of the call. */
#include "oracle.h"

#define REACH 12

#if _MIPS_SIM == _ABIO32
#define NO_CALL 0x27bd0008
#else
#define NO_CALL 0
#endif

static int calls(unsigned instruction) {
    return instruction >> 26 == 3 || (instruction & 0xfc1fffff) == 0x0000f809 ||
           instruction >> 16 == 0x0411;
}

static int opens(unsigned instruction) {
    unsigned operation = instruction >> 26;
    int from_got = operation == 0x23 || operation == 0x37;
    return calls(instruction) || operation == 0x0f || from_got;
}

int disarm(byte *site) {
    if (!opens(code32(site)))
        return 0;
    for (unsigned i = 0; i < REACH; i++, site += 4)
        if (calls(code32(site))) {
            put32(site, NO_CALL);
            return 1;
        }
    return 0;
}
