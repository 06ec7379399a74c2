// Throws through a function that may be replaced, when it's told to by a line.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <unistd.h>
#define NI __attribute__((noinline, noclone))
struct Guard {
    int *count;
    ~Guard() { ++*count; }
};
int destroyed;
NI int fail(int x) { throw std::runtime_error(std::to_string(x)); }
NI int through(int x) {
    Guard guard{&destroyed};
    return fail(x) + 1;
}
int main() {
    char line[100];
    alarm(200);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        try {
            printf("%d\n", through(1));
        } catch (int) {
            puts("a number");
        } catch (std::exception &error) {
            printf("%s %d\n", error.what(), destroyed);
        }
        fflush(stdout);
    }
    return 7;
}
