/* A clone, as gcc makes them, and a function with two names. */
#define NI __attribute__((noinline))
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))
NI static int work(int n) __asm__("work.constprop.0");
NI static int work(int n) {
    OPAQUE(n);
    return n + 1;
}
NI int real_one(int n) {
    OPAQUE(n);
    return n + 2;
}
int alias_one(int n) __attribute__((alias("real_one")));
int main(void) {
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum += work(i) + alias_one(i);
    return sum == 0;
}
