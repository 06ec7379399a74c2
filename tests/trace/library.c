/* Opens and closes a library again and again, which has hooks, a constructor and a destructor. */
#include "hits.h"
#include <dlfcn.h>
#ifndef MODE
#define MODE RTLD_NOW
#endif
TRUTH()
NI static int once(const char *path) {
    HIT();
    void *handle = dlopen(path, MODE);
    int (*function)(int) = handle ? (int (*)(int))dlsym(handle, "plugin") : 0;
    int result = function ? function(20) : -1;
    if (handle)
        dlclose(handle);
    return result;
}
int main(int argc, char **argv) {
    int right = 0;
    if (argc < 2)
        return 2;
    for (int i = 0; i < 100; i++)
        right += once(argv[1]) == 41;
    printf("%d\n", right);
    return 0;
}
