/* A library that library.c opens and closes. */
#ifdef __powerpc64__
/* What -mprofile-kernel's hooks call has to be in the library itself. */
__asm__(".globl _mcount\n.hidden _mcount\n.type _mcount, @function\n"
        "_mcount: mflr 12\n mtctr 12\n mtlr 0\n bctr\n.size _mcount, . - _mcount\n");
#endif
__attribute__((noinline)) long plugin_add(long a, long b)
{
    __asm__ volatile("" : "+r"(a));
    return a + b;
}
__attribute__((noinline)) long plugin_twice(long a)
{
    __asm__ volatile("" : "+r"(a));
    return plugin_add(a, a);
}
