// Exceptions pass functions whose first instruction has moved.
//# plain
//# flags: -O2 -mbranch-protection=standard
//# planned: g
//# planned: thrower
#include "function.h"
extern "C" __attribute__((noinline)) void thrower(int n) { if (n) throw n; }
extern "C" __attribute__((noinline)) int g(int n) { thrower(n); return n + 1; }
extern "C" __attribute__((noinline)) int f(int n) { try { return g(n); } catch (int e) { return e + 100; } }
int main() { printf("%d %d\n", f(0), f(7)); }
