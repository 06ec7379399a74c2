/* Prints what a program is given at its start: arguments, environment, auxiliary vector, descriptors. */
#include "hits.h"
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>
TRUTH()
extern char **environ;
NI static void show(const char *what, const char *value) {
    HIT();
    if (strncmp(value, "TRUTH=", 6))
        printf("%s %s\n", what, value);
}
NI static void show_file(const char *path) {
    HIT();
    static char text[1 << 16];
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        show(path, at);
    close(file);
}
NI static void show_vector(void) {
    HIT();
    char **at = environ;
    while (*at)
        at++;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)(at + 1); entry->a_type != AT_NULL; entry++) {
        switch (entry->a_type) {
        case AT_EXECFN:
        case AT_PLATFORM:
            printf("vector %lu %s\n", entry->a_type, (char *)entry->a_un.a_val);
            break;
        case AT_RANDOM:
        case AT_BASE:
        case AT_PHDR:
        case AT_ENTRY:
        case AT_SYSINFO_EHDR:
            /* Addresses differ from run to run. */
            printf("vector %lu\n", entry->a_type);
            break;
        default:
            printf("vector %lu %lu\n", entry->a_type, entry->a_un.a_val);
        }
    }
}
NI static void show_descriptors(void) {
    HIT();
    for (int i = 0; i < 1024; i++) {
        struct stat status;
        if (fstat(i, &status) == 0)
            printf("descriptor %d %o\n", i, status.st_mode & S_IFMT);
    }
}
NI static void show_signals(void) {
    HIT();
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, 0, &blocked);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, 0, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d has a handler\n", i);
        if (sigismember(&blocked, i) == 1)
            printf("signal %d is blocked\n", i);
    }
}
NI static void show_limits(void) {
    HIT();
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit(i, &limit) == 0)
            printf("limit %d %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
    }
}
int main(int argc, char **argv) {
    printf("aligned %d\n", (int)((unsigned long)__builtin_frame_address(0) % 16));
    for (int i = 0; i < argc; i++)
        show("argument", argv[i]);
    for (char **at = environ; *at; at++)
        show("variable", *at);
    show_vector();
    show_file("/proc/self/environ");
    show_file("/proc/self/cmdline");
    show_descriptors();
    show_signals();
    show_limits();
    printf("umask %o\n", umask(0));
    return 0;
}
