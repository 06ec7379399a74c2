#include <cstdio>
namespace shop {
__attribute__((noinline)) int handle_request(int n) { asm(""); return n + 1; }
template <class T> __attribute__((noinline)) T twice(T n) { asm(""); return n * 2; }
struct Cart { __attribute__((noinline)) int add(int n) const { asm(""); return n; } };
static inline int only_inlined(int x) { return x * 3; }
}
int main(int argc, char **) { shop::Cart c; int s = 0; for (int i = 0; i < 800; i++) s += shop::handle_request(i) + shop::twice(i) + c.add(i) + shop::only_inlined(argc); printf("%d\n", s); }
