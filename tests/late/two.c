/* The second traced function. */
__attribute__((noinline)) int g(int a);
int g(int a) {
    return a * 2;
}
