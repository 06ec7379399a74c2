// A new function that is thrown through, and that catches what is its own.
#include <stdexcept>
struct Guard {
    int *count;
    ~Guard() { *count += 100; }
};
extern int destroyed;
int fail(int);
int through(int x) {
    Guard guard{&destroyed};
    try {
        throw x;
    } catch (int found) {
        x = found * 10;
    }
    return fail(x) + 1;
}
