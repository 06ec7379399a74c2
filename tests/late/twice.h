/* A template that both objects instantiate: the linker keeps one. */
template <typename T>
__attribute__((noinline)) T twice(T a) {
    return a + a;
}
