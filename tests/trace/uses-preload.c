/* Asks the preloaded library, and prints the variable. */
#include "hits.h"
#include <dlfcn.h>
#include <link.h>
TRUTH()
NI static int list(struct dl_phdr_info *info, size_t size, void *count) {
    HIT();
    (void)size;
    (void)info;
    ++*(int *)count;
    return 0;
}
int main(void) {
    int count = 0;
    const char *variable = getenv("LD_PRELOAD");
    dl_iterate_phdr(list, &count);
    printf("%d %s %d\n", getpagesize(), variable ? strrchr(variable, '/') : "none", count > 2);
    return 0;
}
