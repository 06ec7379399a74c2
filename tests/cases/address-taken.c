// The hook's address in code and data is no call.
//# compiler: gcc clang
//# flags: -O2 -pg -mfentry
//# site: .text f call recorded
void __fentry__(void);
void *in_data = (void *)__fentry__;
void *f(void) { return (void *)__fentry__; }
