// Rethrows exceptions, and prints what came of that. The C++ library passes a marker for each, if it has these.
#include <cstdio>
#include <stdexcept>
#define NI __attribute__((noinline, noclone))
NI static int thrown(int n) {
    if (n % 3)
        throw std::runtime_error(n % 2 ? "odd" : "even");
    return n;
}
NI static int again(int n) {
    try {
        return thrown(n);
    } catch (std::exception &) {
        throw;
    }
}
int main() {
    int odd = 0, none = 0;
    for (int n = 0; n < 300; n++) {
        try {
            again(n);
            none++;
        } catch (std::runtime_error &error) {
            odd += error.what()[0] == 'o';
        }
    }
    std::printf("%d odd, %d none\n", odd, none);
    return 7;
}
