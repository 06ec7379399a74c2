// No hook: nothing to record.
//# compiler: gcc clang riscv64-linux-gnu-gcc
//# flags: -O2
int f(int a) { return a + 1; }
