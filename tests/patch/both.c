// Three functions that belong together.
__attribute__((noinline)) int first(void) { return 2; }
__attribute__((noinline)) int second(void) { return 2; }
int both(void) {
    int one = first();
    for (volatile int i = 0; i < 200; i++)
        ;
    return one * 10 + second();
}
