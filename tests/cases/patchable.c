// Areas of NOPs are listed by the compiler; the record command leaves them.
//# compiler: gcc clang aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc s390x-linux-gnu-gcc
//# flags: -O2 -fpatchable-function-entry=2
//# site: .text f patchable recorded
int f(int a) { return a + 1; }
