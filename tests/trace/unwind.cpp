/* Exceptions through 1,000 frames, rethrown, nested, and with a wrong type; each frame's destructor runs. */
#include "hits.h"
#include <exception>
#include <stdexcept>
TRUTH()

static long destroyed;
struct Guard {
    int n;
    ~Guard() { destroyed += n; }
};
NI int fall(int n) {
    HIT();
    Guard g{n};
    if (n == 0)
        throw std::runtime_error("bottom");
    return fall(n - 1) + 1;
}
NI int again(int n) {
    HIT();
    try {
        return fall(n);
    } catch (std::exception &) {
        throw;
    }
}
NI int other(int n) {
    HIT();
    try {
        return again(n);
    } catch (int) {
        return 1;
    }
}
NI int nested(int n) {
    HIT();
    try {
        return other(n);
    } catch (std::runtime_error &) {
        try {
            return fall(n);
        } catch (std::exception &) {
            std::throw_with_nested(std::logic_error("outer"));
        }
    }
}
/* Nothing may leave it, but inside it may throw. */
NI int closed(int n) noexcept {
    HIT();
    try {
        return nested(n);
    } catch (std::logic_error &) {
        return 5;
    }
}
struct Late {
    NI ~Late() {
        HIT();
        try {
            fall(3);
        } catch (std::runtime_error &) {
        }
    }
};
/* A destructor throws and catches while another exception is on its way. */
NI int late(int n) {
    HIT();
    Late l;
    return fall(n);
}

int main() {
    int sum = 0;
    for (int i = 0; i < 20; i++)
        sum += closed(1000);
    printf("%d %ld\n", sum, destroyed);
    for (int i = 0; i < 20; i++)
        try {
            late(i);
        } catch (std::runtime_error &e) {
            sum += e.what()[0];
        }
    printf("%d %ld\n", sum, destroyed);
    return 3;
}
