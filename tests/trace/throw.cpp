/* Exceptions, in one thread and in many, and threads that end by cancellation and pthread_exit. */
#include "hits.h"
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
TRUTH()

struct Guard {
    static int live;
    Guard() { __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED); }
    ~Guard() { __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED); }
};
int Guard::live;

NI int sink(int n) {
    HIT();
    Guard g;
    if (n == 0)
        throw std::runtime_error("bottom");
    return sink(n - 1) + 1;
}
NI int rethrow(int n) {
    HIT();
    try {
        return sink(n);
    } catch (std::exception &) {
        Guard g;
        throw;
    }
}
NI int frames() {
    HIT();
    void *p[64];
    int n = backtrace(p, 64), bad = 0;
    for (int i = 0; i < n; i++)
        if (!p[i])
            bad++;
    return bad * 1000 + (n > 3);
}
NI int mid(int n) {
    HIT();
    int r = n ? mid(n - 1) : frames();
    __asm__ volatile("" : "+r"(r));
    return r;
}
NI void work(int n) {
    HIT();
    Guard g;
    for (int i = 0; i < n; i++)
        try {
            rethrow(i % 30);
        } catch (std::runtime_error &) {
        }
}
NI void *stopped(void *) {
    HIT();
    Guard g;
    for (;;) {
        pthread_testcancel();
        AWAIT_CANCELLATION();
    }
    return 0;
}
NI void *leaves(void *) {
    HIT();
    Guard g;
    pthread_exit((void *)5);
}

int main() {
    int caught = 0;
    for (int i = 0; i < 100; i++)
        try {
            rethrow(i);
        } catch (std::runtime_error &e) {
            caught += std::string(e.what()) == "bottom";
        }
    printf("caught %d\n", caught);
    printf("frames %d\n", mid(6));
    std::vector<std::thread> t;
    for (int i = 0; i < 4; i++)
        t.emplace_back(work, 100);
    for (auto &x : t)
        x.join();
    pthread_t a, b;
    void *v;
    pthread_create(&a, 0, stopped, 0);
    pthread_create(&b, 0, leaves, 0);
    usleep(5000);
    pthread_cancel(a);
    pthread_join(a, &v);
    printf("cancelled %d\n", v == PTHREAD_CANCELED);
    pthread_join(b, &v);
    printf("left %ld\n", (long)v);
    for (int i = 0; i < 50; i++)
        std::thread([] {
            try {
                sink(3);
            } catch (...) {
            }
        }).join();
    printf("live %d\n", Guard::live);
    return 0;
}
