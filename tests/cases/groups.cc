// Functions in COMDAT groups are recorded in tables of their group.
//# compiler: g++
//# flags: -O2 -pg -mfentry -ffunction-sections
//# options: --policy all
//# site: .text._Z5twiceIiET_S0_ _Z5twiceIiET_S0_ call recorded
//# site: .text._Z4usedi _Z4usedi call recorded
template <class T> __attribute__((noinline)) T twice(T a) { return a + a; }
int used(int a) { return twice(a) + 1; }
