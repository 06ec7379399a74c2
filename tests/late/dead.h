/* A function that nobody calls, at the start of an object, for the linker to collect. */
static __attribute__((used)) int dead_and_first(int a) {
    return a * 5;
}
