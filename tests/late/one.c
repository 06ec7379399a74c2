/* The first traced function, with one before it that nobody calls, and one that is the same. */
int g(int a);

#ifdef DEAD
int dead(int a);
int dead(int a) {
    return a * 7;
}
#endif

#ifdef TWIN
int twin(int a);
int twin(int a) {
    return g(a) + 1;
}

int (*volatile other)(int) = twin;
#endif

__attribute__((noinline)) int f(int a);
int f(int a) {
    return g(a) + 1;
}
