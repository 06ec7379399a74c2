// Nor has gcc's slim LTO.
//# compiler: gcc
//# flags: -O2 -pg -flto -fno-fat-lto-objects
//# error: gcc LTO bytecode, not machine code: record the object that the LTO link makes
int f(int a) { return a + 1; }
