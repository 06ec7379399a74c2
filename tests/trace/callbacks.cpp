/* Exceptions and longjmp through functions of libraries, and what unwinders find beneath them; and functions that return twice. */
#include "hits.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <ucontext.h>
#include <vector>
TRUTH()

static jmp_buf back;
static int destroyed, rounds;
struct Guard {
    ~Guard() { destroyed++; }
};
/* Of this program's functions only: a tracer may have frames of its own in between. */
QUIET static void show(void *address) {
    Dl_info found, self;
    if (dladdr(address, &found) && dladdr((void *)show, &self) && found.dli_fbase == self.dli_fbase)
        printf("frame %s\n", found.dli_sname ? found.dli_sname : "?");
}
extern "C" {
NI int shows(const void *, const void *) {
    HIT();
    void *frames[64];
    int count = backtrace(frames, 64);
    if (rounds++ < 2)
        for (int i = 0; i < count; i++)
            show((char *)frames[i] - 1);
    return 0;
}
NI int throws(const void *one, const void *other) {
    HIT();
    Guard guard;
    if (++rounds % 5 == 0)
        throw std::runtime_error("in the middle");
    return *(const int *)one - *(const int *)other;
}
NI int leaps(const void *, const void *) {
    HIT();
    longjmp(back, 1);
}
NI int inside(const void *one, const void *other) {
    HIT();
    /* An exception that doesn't leave it. */
    try {
        throws(one, other);
    } catch (std::runtime_error &error) {
        return error.what()[0];
    }
    return 0;
}
NI void *ends(void *) {
    HIT();
    Guard guard;
    int one[] = {2, 1};
    qsort(one, 2, sizeof one[0], [](const void *, const void *) -> int { pthread_exit(0); });
    return 0;
}
}
NI int sorted(int (*compare)(const void *, const void *)) {
    HIT();
    int numbers[] = {5, 3, 9, 1, 7, 2, 8};
    Guard guard;
    qsort(numbers, 7, sizeof numbers[0], compare);
    return numbers[0];
}
/* The child calls what doesn't return, where its parent returns a second time. */
NI int twice() {
    HIT();
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)0);
        _exit(6);
    }
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
NI int thrice() {
    HIT();
    static ucontext_t here;
    volatile int count = 0;
    getcontext(&here);
    if (++count < 3)
        setcontext(&here);
    return count;
}
int main() {
    sorted(shows);
    printf("%d %d\n", twice(), thrice());
    for (int i = 0; i < 100; i++) {
        try {
            sorted(throws);
        } catch (std::exception &error) {
            if (std::string(error.what()) != "in the middle")
                return 1;
        }
        if (!setjmp(back))
            sorted(leaps);
        sorted(inside);
        try {
            std::vector<int>().at(3);
        } catch (std::out_of_range &) {
            rounds++;
        }
        try {
            throw 5;
        } catch (int n) {
            try {
                throw;
            } catch (...) {
                rounds += 2;
            }
        }
    }
    pthread_t thread;
    pthread_create(&thread, 0, ends, 0);
    pthread_join(thread, 0);
    printf("%d %d\n", destroyed, rounds);
    return 3;
}
