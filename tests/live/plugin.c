/* A library that library.c opens and closes. */
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
