// Throws exceptions through many functions when it's told to by a line on its standard input, and prints how often each
// function was called for that.
#include "hits.h"
#include <stdexcept>
TRUTH()
struct Guard {
    int *count;
    ~Guard() { ++*count; }
};
static int destroyed;

NI static void fail(int n) {
    HIT();
    throw std::runtime_error(n % 2 ? "odd" : "even");
}
NI static int through(int n, int depth) {
    HIT();
    Guard guard{&destroyed};
    if (!depth)
        fail(n);
    int result = through(n, depth - 1);
    return result + destroyed;
}
NI static int again(int n) {
    HIT();
    try {
        return through(n, 50);
    } catch (std::runtime_error &) {
        throw;
    }
}
NI static int caught(int n) {
    HIT();
    try {
        return again(n);
    } catch (std::exception &error) {
        return error.what()[0] == 'o';
    }
}
QUIET int main() {
    char line[16];
    /* If it hangs, it doesn't for ever. */
    alarm(1000);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int odd = 0;
        destroyed = 0;
        for (int i = 0; i < 100; i++)
            odd += caught(i);
        if (odd != 50 || destroyed != 5100) {
            printf("wrong %d %d\n", odd, destroyed);
            return 4;
        }
        for (int i = 0; i < 64 && hits_[i].name; i++) {
            printf("%s %lu ", hits_[i].name, hits_[i].count);
            hits_[i].count = 0;
        }
        printf("\n");
        fflush(stdout);
    }
    return 7;
}
