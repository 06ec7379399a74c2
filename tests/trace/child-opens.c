/* A child opens a library, and then its parent does, at the same address. */
#include "hits.h"
#include <dlfcn.h>
#include <sys/wait.h>
TRUTH()
NI static int once(const char *path) {
    HIT();
    void *handle = dlopen(path, RTLD_NOW);
    int (*function)(int) = handle ? (int (*)(int))dlsym(handle, "plugin") : 0;
    return function ? function(20) : -1;
}
int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        CHILD();
        LEAVE(once(argv[1]));
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d %d\n", WEXITSTATUS(status), once(argv[1]));
    return 0;
}
