// Nor has gcc's slim LTO.
//# compiler: gcc
//# flags: -O2 -pg -flto -fno-fat-lto-objects
//# error: gcc LTO bytecode without machine code
int f(int a) { return a + 1; }
