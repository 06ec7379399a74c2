// Calls with values of many kinds, some at the edges of their types. Each is told of in a line, which is what conditions are
// checked by.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <sys/mman.h>

#define CALLED extern "C" __attribute__((noinline))

/* Callers of clang leave out what a function doesn't use. */
#define USED(...) __asm__ volatile("" : : __VA_ARGS__)

enum state { BROKEN = -3, IDLE, RUNNING = 7 };

static const char *quoted(const char *text) {
    static char room[2][100];
    static int which;
    which ^= 1;
    snprintf(room[which], sizeof room[which], "\"%s\"", text);
    return room[which];
}

CALLED int inner(int id) {
    USED("m"(id));
    return id;
}

CALLED int put(int id, size_t size, int fd, const char *name) {
    USED("m"(id), "m"(size), "m"(fd), "m"(name));
    return inner(id) % 3 == 0 ? -fd : (int)size;
}

CALLED double scale(int id, double ratio, float small) {
    USED("m"(id), "m"(ratio), "m"(small));
    return ratio * 2;
}

CALLED long go(int id, enum state state, bool flag, unsigned char key) {
    USED("m"(id), "m"(state), "m"(flag), "m"(key));
    return state;
}

CALLED const char *take(int id, const std::string &text, std::string_view view) {
    USED("m"(id), "r"(&text), "m"(view));
    return text.empty() ? nullptr : text.c_str();
}

CALLED uint64_t many(int id, long a, long b, long c, long d, long e, long seventh, short eighth) {
    USED("m"(id), "m"(a), "m"(b), "m"(c), "m"(d), "m"(e), "m"(seventh), "m"(eighth));
    return (uint64_t)seventh;
}

struct item {
    int key;
    enum state state;
    const char *name;
    double weight;
    const item *next;
    std::string text;
    int far;
};

CALLED const item *look(int id, const item *p, const item *n) {
    USED("m"(id), "m"(p), "m"(n));
    return n;
}

struct kept {
    long before;
    char tag[9];
    std::optional<int> maybe;
};

struct pair {
    int x;
    short y;
    char tag[3];
};

CALLED int hold(int id, const kept *k, std::optional<int> maybe, std::optional<long> far, pair at) {
    __asm__ volatile("" : : "m"(id), "m"(k), "m"(maybe), "m"(far), "m"(at) : "memory");
    return id;
}

int main() {
    long page = 4096;
    char *pages = (char *)mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + page, page);
    memcpy(pages + page - 4, "edge", 4);
    const char *names[] = {"x", "longer", "", nullptr, (const char *)8, pages + page - 4};
    const char *told[] = {"\"x\"", "\"longer\"", "\"\"", "null", "\"?\"", "\"?\""};
    size_t sizes[] = {0, 1, 4096, 4097, SIZE_MAX, (size_t)INT64_MAX + 1};
    int id = 0;
    for (int at = 0; at < 36; at++) {
        int name = at % 6, fd = at % 5 - 2;
        size_t size = sizes[at / 6];
        int result = put(++id, size, fd, names[name]);
        printf("{\"f\":\"put\",\"id\":%d,\"size\":%zu,\"fd\":%d,\"name\":%s,\"result\":%d}\n", id, size, fd, told[name], result);
    }
    double ratios[] = {0.0, -0.0, 0.1, -0.1, 1e300, -1e300, 5e-324, 0.5};
    for (int at = 0; at < 8; at++) {
        float small = (float)ratios[7 - at];
        double result = scale(++id, ratios[at], small);
        printf("{\"f\":\"scale\",\"id\":%d,\"ratio\":%.17g,\"small\":%.17g,\"result\":%.17g}\n", id, ratios[at],
               small > 1e30f ? 1e308 : small < -1e30f ? -1e308 : small, result);
    }
    scale(++id, 0.0 / 0.0, 1);
    printf("{\"f\":\"scale\",\"id\":%d,\"ratio\":null,\"small\":1,\"result\":null}\n", id);
    enum state states[] = {BROKEN, IDLE, RUNNING, (enum state)2};
    for (int at = 0; at < 8; at++) {
        enum state state = states[at % 4];
        long result = go(++id, state, at > 3, 'a' + at);
        printf("{\"f\":\"go\",\"id\":%d,\"state\":%d,\"flag\":%d,\"key\":%d,\"result\":%ld}\n", id, state, at > 3, 'a' + at, result);
    }
    const char *texts[] = {"", "x", "in place", "longer than what has room in place"};
    for (int at = 0; at < 16; at++) {
        std::string text = texts[at % 4];
        std::string_view view = texts[at / 4];
        bool is_null = take(++id, text, view.substr(0, 8)) == nullptr;
        printf("{\"f\":\"take\",\"id\":%d,\"text\":%s,\"view\":%s,\"null\":%d}\n", id, quoted(texts[at % 4]),
               quoted(std::string(view.substr(0, 8)).c_str()), is_null);
    }
    for (long at = -3; at < 3; at++) {
        uint64_t result = many(++id, 1, 2, 3, 4, 5, at << 40, (short)(at * 10000));
        printf("{\"f\":\"many\",\"id\":%d,\"seventh\":%ld,\"eighth\":%d,\"result\":%llu}\n", id, at << 40, (short)(at * 10000),
               (unsigned long long)result);
    }
    item items[] = {
        {3, RUNNING, "x", 0.75, &items[1], "x", 5},
        {-1, BROKEN, nullptr, 1.5, nullptr, "longer than what has room in place", 4},
        {-1, IDLE, (const char *)8, 0.25, (const item *)8, "", 7},
        {4, RUNNING, "longer", -1, &items[0], "x", 3},
    };
    const item *all[] = {&items[0], &items[1], &items[2], &items[3], nullptr, (const item *)8, (const item *)(pages + page)};
    for (int at = 0; at < 21; at++) {
        const item *p = all[at % 7], *n = all[at / 7 * 2];
        bool is_null = look(++id, p, n) == nullptr;
        printf("{\"f\":\"look\",\"id\":%d,\"null\":%d,\"n\":%d", id, is_null, n ? n->key : 0);
        if (at % 7 < 4)
            printf(",\"key\":%d,\"state\":%d,\"name\":%s,\"weight\":%g,\"text\":\"%s\",\"far\":%d,\"next\":%s", p->key, p->state,
                   !p->name ? "null" : p->name == (const char *)8 ? "\"?\"" : quoted(p->name), p->weight, p->text.c_str(), p->far,
                   !p->next ? "null" : p->next == (const item *)8 ? "8" : std::to_string(p->next->key).c_str());
        printf("}\n");
    }
    const char *tags[] = {"ab", "", "abcdefghi", "abcdefgh"};
    for (int at = 0; at < 8; at++) {
        kept one = {0, {0}, at % 3 ? std::optional<int>(at) : std::nullopt};
        memcpy(one.tag, tags[at % 4], strlen(tags[at % 4]));
        pair two = {at, (short)-at, {0}};
        memcpy(two.tag, one.tag, 3);
        hold(++id, &one, one.maybe, one.maybe ? std::optional<long>(at) : std::nullopt, two);
        printf("{\"f\":\"hold\",\"id\":%d,\"tag\":\"%.9s\",\"x\":%d", id, one.tag, at);
        if (one.maybe)
            printf(",\"maybe\":%d", *one.maybe);
        printf("}\n");
    }
    return 0;
}
