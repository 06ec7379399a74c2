// Frames of a size that only the program knows, and such that are aligned: the stack stays the same.
//# flags: -O2 -fno-omit-frame-pointer
//# planned: f
//# planned: g
//# planned: h
#include <alloca.h>
#include <string.h>
#include "function.h"
__attribute__((noinline)) int use(char *room, int n) { memset(room, n, n); return room[n - 1]; }
__attribute__((noinline)) int f(int n) { return use(alloca(n), n); }
__attribute__((noinline)) int g(int n) {
  int sum = 0;
  for (int i = 1; i < n; i++) { char room[i * 16]; sum += use(room, i); }
  return sum;
}
__attribute__((noinline)) int h(int n) {
  char room[100000] __attribute__((aligned(128)));
  return use(room, n) + (int)((long)room % 128);
}
int main(void) { printf("%d %d %d\n", f(100), g(20), h(30)); }
