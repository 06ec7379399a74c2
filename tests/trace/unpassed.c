/* clang doesn't pass what a static function makes no use of, and the other arguments move up. The same goes for results. */
#include <stdio.h>

static __attribute__((noinline)) int moved(int unused, int b, int *p)
{
    printf("[\"moved\",[],null]\n");
    return b + 1;
}

static __attribute__((noinline)) int kept(int a, int unused)
{
    printf("[\"kept\",[],null]\n");
    return a + 1;
}

int main(int argc, char **argv)
{
    int some = argc;
    return moved(3, argc, &some) + moved(4, argc + 1, &some) + kept(argc, 5) + kept(6, argc) - 14;
}
