/* Calls functions of the C library, also as the last thing that a function does, and where the address is taken, too; in threads and
 * in a child. Compilers and linkers know several ways to do that. `calls-counted.c` counts them. */
#include "hits.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
TRUTH()

NI static int compare(const void *one, const void *other)
{
    HIT();
    return *(const int *)one - *(const int *)other;
}
/* Where a program that isn't position-independent takes the address of a function, all others have its PLT's instead. */
#if defined __PIC__ && !defined NOT_TAKEN
#define ADDRESS(function) function
#else
#define ADDRESS(function) dlsym(RTLD_DEFAULT, #function)
#endif
/* Is it the address that all others have for it? */
NI static int is_same(void *address, const char *name)
{
    HIT();
    return address == dlsym(RTLD_DEFAULT, name);
}
NI static void *work(void *count)
{
    HIT();
    for (long i = 0; i < (long)count; i++)
        free(malloc(i + 1));
    return is_same(ADDRESS(free), "free") ? calloc(1, 1) : 0;
}
NI static void say(const char *text)
{
    HIT();
    puts(text);
    __asm__ volatile("");
}
/* Jumps to it. */
NI static size_t last(const char *text)
{
    HIT();
    return strlen(text);
}
NI static int texts(int n)
{
    HIT();
    char text[200], copy[200];
    snprintf(text, sizeof text, "%d %.3f %Lf %s %g %g %g %g %g %g %g %g", n, n * 0.5, (long double)n, "x", 1.5, 2.5, 3.5,
             4.5, 5.5, 6.5, 7.5, 8.5);
    memcpy(copy, text, strlen(text) + 1);
    say(copy);
    div_t parts = div(n + 17, 5);
    lldiv_t long_parts = lldiv(n + 1000000000000, 7);
    printf("%d %d %lld %lld %f\n", parts.quot, parts.rem, long_parts.quot, long_parts.rem, strtod("1.25", 0));
    return last(text) + 2 * is_same(ADDRESS(puts), "puts") + 4 * is_same(ADDRESS(qsort), "qsort");
}
#ifdef OWN_START
/* Those of the C library and the compiler may have no landing pads. */
__attribute__((visibility("hidden"))) void *__dso_handle;
int main(void);
__asm__(".globl _start\n_start: bti c\nmov x29, #0\nmov x30, #0\nmov x5, x0\nadrp x0, main\nadd x0, x0, :lo12:main\n"
        "ldr x1, [sp]\nadd x2, sp, #8\nmov x3, #0\nmov x4, #0\nmov x6, sp\nbl __libc_start_main\nudf #0");
#endif
int main(void)
{
    int numbers[] = {5, 3, 9, 1, 7, 2};
    qsort(numbers, 6, sizeof numbers[0], compare);
    pthread_t threads[4];
    int right = 0;
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work, (void *)(100 * i));
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        right += result != 0;
        free(result);
    }
    int sum = right + texts(numbers[0]) + texts(numbers[5]);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        CHILD();
        texts(3);
        exit(sum & 127);
    }
    int status;
    waitpid(child, &status, 0);
    write(1, "end\n", 4);
    return WEXITSTATUS(status) + (getenv("TRUTH") == 0);
}
