// Linux's section policy, and the sections that are left alone.
//# compiler: gcc clang aarch64-linux-gnu-gcc arm-linux-gnueabihf-gcc
//# flags: -O2 -pg
//# site: .text traced call recorded
//# site: .init.text at_start call recorded
//# site: .text..nomcount reserved call excluded
#define IN(name) __attribute__((section(name)))
int traced(int a) { return a + 1; }
IN(".init.text") int at_start(int a) { return a + 2; }
IN(".exit.text") int at_end(int a) { return a + 3; }
IN(".text..nomcount") int reserved(int a) { return a + 4; }
