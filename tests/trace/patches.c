/* Changes its own code: calls of one function go to another one, and back. Generates a function, too. */
#include "hits.h"
#ifndef __x86_64__
#error "it writes code of x86-64"
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
TRUTH()
NI static int before(int n) {
    HIT();
    return n + 1;
}
NI static int after(int n) {
    HIT();
    return n + 1000;
}
static int (*volatile function)(int) = before;
static unsigned char kept[16];

/* A jump over the first bytes, as tools for live patches have it. */
NI static void patch(void) {
    HIT();
    unsigned char *entry = (unsigned char *)before;
    memcpy(kept, entry, sizeof kept);
    uintptr_t page = (uintptr_t)entry & -4096;
    mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    int32_t distance = (int32_t)((intptr_t)after - (intptr_t)(entry + 5));
    entry[0] = 0xe9;
    memcpy(entry + 1, &distance, 4);
    mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}
NI static void put_back(void) {
    HIT();
    uintptr_t page = (uintptr_t)before & -4096;
    mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy((void *)(uintptr_t)before, kept, sizeof kept);
    mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}
NI static int called(int n) {
    HIT();
    return n * 3;
}
/* jmp to called, by an address in a register. */
NI static int generated(void) {
    HIT();
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*volatile target)(int) = called;
    code[0] = 0x48;
    code[1] = 0xb8;
    memcpy(code + 2, (void *)&target, 8);
    code[10] = 0xff;
    code[11] = 0xe0;
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    return ((int (*)(int))code)(5);
}
int main(void) {
    int sum = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++)
            sum += function(i);
        patch();
        /* A tracer looks at all modules again. */
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        for (int i = 0; i < 10; i++)
            sum += function(i);
        put_back();
        if (library)
            dlclose(library);
    }
    printf("%d %d %d\n", sum, function(0), generated());
    return 0;
}
