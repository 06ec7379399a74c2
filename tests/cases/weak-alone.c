// A weak function alone in its section: assemblers drop the section's symbol.
//# compiler: gcc clang clang-19 aarch64-linux-gnu-gcc arm-linux-gnueabihf-gcc riscv64-linux-gnu-gcc
//# compiler: mipsel-linux-gnu-gcc powerpc64-linux-gnu-gcc s390x-linux-gnu-gcc sparc64-linux-gnu-gcc
//# flags: -O2 -pg -ffunction-sections
//# site: .text.alone alone call recorded
__attribute__((weak)) int alone(int a) { return a + 1; }
