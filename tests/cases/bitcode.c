// Bitcode has no machine code yet.
//# compiler: clang
//# flags: -O2 -pg -flto
//# error: LLVM bitcode, not machine code: record vmlinux.o after the LTO link
int f(int a) { return a + 1; }
