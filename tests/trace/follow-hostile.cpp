/* Passes pointers that lead nowhere, to themselves, and to memory that other threads unmap and write to meanwhile. It counts what it does, and
 * ends well if nobody reads through these pointers as the program itself would. */
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <sys/mman.h>

#ifdef __clang__
#define KEPT __attribute__((noinline, used, optnone))
#else
#define KEPT __attribute__((noinline, used, noipa))
#endif

struct Deep {
    Deep *left, *right;
    const char *name;
    char *names[3];
    std::vector<Deep> *children;
};

static std::atomic<long> count;

KEPT int deep(Deep *d, Deep **e) { return ++count, d == (void *)e; }
KEPT int lists(const std::vector<std::string> &v, std::vector<std::vector<Deep>> *w, const std::string &s)
{
    return ++count, (void *)&v == w || (void *)&s == w;
}
KEPT int trees(const std::map<int, std::string> &m, const std::map<long, Deep> &n) { return ++count, (void *)&m == &n; }
KEPT int others(const std::optional<std::vector<int>> &o, const std::unique_ptr<Deep> &u, const std::shared_ptr<Deep> &s)
{
    return ++count, (void *)&o == &u || (void *)&s == &u;
}

static void all(void *at)
{
    deep((Deep *)at, (Deep **)at);
    lists(*(std::vector<std::string> *)at, (std::vector<std::vector<Deep>> *)at, *(std::string *)at);
    trees(*(std::map<int, std::string> *)at, *(std::map<long, Deep> *)at);
    others(*(std::optional<std::vector<int>> *)at, *(std::unique_ptr<Deep> *)at, *(std::shared_ptr<Deep> *)at);
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? atoi(argv[1]) : 1;
    auto random = [&] { return seed = seed * 1103515245 + 12345, (uint64_t)(seed >> 8); };
    const size_t size = 16 * 4096;
    char *area = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::atomic<bool> ends{false};
    /* One takes the pages away and brings them back, one writes addresses into them. */
    std::thread unmaps([&] {
        while (!ends) {
            mmap(area + 4096, size - 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            mmap(area + 4096, size - 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
    });
    std::thread writes([&] {
        for (unsigned at = 0; !ends; at++) {
            uint64_t *words = (uint64_t *)area;
            words[at % 512] = at % 3 ? (uint64_t)(area + at * 8 % size) : ~0ULL << at % 64;
        }
    });
    const uint64_t bad[] = {0, 1, 7, 4095, 4096, 1ULL << 47, (1ULL << 47) - 1, ~0ULL, ~0ULL - 7, 1ULL << 63, 0xdead000000000000};
    for (uint64_t one : bad)
        all((void *)one);
    for (int round = 0; round < 1500; round++)
        all(area + random() % size);
    ends = true;
    unmaps.join();
    writes.join();
    /* What leads to itself. */
    uint64_t *words = (uint64_t *)malloc(4096);
    for (int at = 0; at < 512; at++)
        words[at] = (uint64_t)(words + (at & ~7));
    for (int at = 0; at < 64; at++)
        all(words + at);
    printf("%ld\n", count.load());
    return 0;
}
