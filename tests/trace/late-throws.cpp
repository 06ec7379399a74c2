// A library that late-throw.c opens: it catches what it throws through a function of the program.
#include <stdexcept>
extern "C" void fail(int n) {
    throw std::runtime_error(n % 2 ? "odd" : "even");
}
extern "C" int caught(int (*through)(int)) {
    static int round;
    try {
        return through(round++);
    } catch (std::runtime_error &error) {
        return error.what()[0] == 'o';
    }
}
