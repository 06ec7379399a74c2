/* Calls have many thousand calls in them, which take nearly all of their time. */
#define NI __attribute__((noinline))

NI void leaf(void)
{
    for (volatile int i = 0; i < 100; i++)
        ;
}

NI void middle(void)
{
    for (int i = 0; i < 20000; i++)
        leaf();
    __asm__ volatile("");
}

NI void outer(void)
{
    for (int i = 0; i < 5; i++)
        middle();
    __asm__ volatile("");
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        outer();
    return 0;
}
