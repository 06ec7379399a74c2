/* Calls until a small trace is full, and opens a C++ library only then: exceptions of that go through calls of this program. */
#include <dlfcn.h>
#include <stdio.h>
#define NI __attribute__((noinline, noclone))
typedef int throws(int (*through)(int));
static throws *opened;
NI int leaf(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
static void (*fail)(int);
NI int through(int n)
{
    fail(leaf(n));
    return leaf(n);
}
int main(int count, char **words)
{
    int sum = 0;
    for (int n = 0; n < 200000; n++)
        sum += leaf(n) & 1;
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
    opened = library ? (throws *)dlsym(library, "caught") : NULL;
    fail = library ? (void (*)(int))dlsym(library, "fail") : NULL;
    if (!opened || !fail) {
        puts(dlerror());
        return 3;
    }
    for (int n = 0; n < 100; n++)
        sum += opened(through);
    printf("%d\n", sum);
    return 7;
}
