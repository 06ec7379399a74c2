/* What unwinders find: the names of all functions that are being called, by backtrace() and by a forced unwinding
 * whose frames are looked at one by one. */
#include "hits.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <unwind.h>
TRUTH()

static jmp_buf back;
static int steps, destroyed;
struct Guard {
    ~Guard() { destroyed++; }
};
/* Of this program's functions only: a tracer may have frames of its own in between. */
QUIET static void show(const char *what, void *address) {
    Dl_info found, self;
    if (dladdr(address, &found) && dladdr((void *)show, &self) && found.dli_fbase == self.dli_fbase)
        printf("%s %s\n", what, found.dli_sname ? found.dli_sname : "?");
}
QUIET static _Unwind_Reason_Code stop(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *,
                                      _Unwind_Context *context, void *last) {
    void *address = (void *)(_Unwind_GetIP(context) - 1);
    show("forced", address);
    Dl_info found;
    if (dladdr(address, &found) && found.dli_sname && !strcmp(found.dli_sname, (char *)last))
        longjmp(back, 1);
    return ++steps > 1000 ? _URC_END_OF_STACK : _URC_NO_REASON;
}
NI void shows() {
    HIT();
    void *frames[64];
    int count = backtrace(frames, 64);
    for (int i = 0; i < count; i++)
        show("frame", (char *)frames[i] - 1);
}
NI void forces() {
    HIT();
    static _Unwind_Exception exception;
    _Unwind_ForcedUnwind(&exception, stop, (void *)"outermost");
    puts("it came back");
}
extern "C" {
NI int innermost(void (*end)()) {
    HIT();
    Guard guard;
    end();
    return 1;
}
NI int inner(int n, void (*end)()) {
    HIT();
    Guard guard;
    int r = n ? inner(n - 1, end) : innermost(end);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
NI int outermost(int n, void (*end)()) {
    HIT();
    int r = inner(n, end);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
}
int main() {
    printf("%d %d\n", outermost(5, shows), destroyed);
    if (setjmp(back) == 0)
        outermost(5, forces);
    printf("%d\n", destroyed);
    return outermost(2, shows);
}
