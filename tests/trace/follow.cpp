/* As follow.c, for classes of the standard library. */
#include <cstdarg>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#ifdef __clang__
#define KEPT __attribute__((noinline, used, optnone))
#else
#define KEPT __attribute__((noinline, used, noipa))
#endif

__attribute__((format(printf, 1, 2), patchable_function_entry(0, 0))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

struct Base {
    short kind;
};
struct Point : Base {
    int x, y;
};
struct Virtual {
    int number = 4;
    virtual ~Virtual() {}
};
struct Holder {
    std::string name;
    std::vector<int> numbers;
};

using Texts = std::vector<std::string>;
using Names = std::map<int, std::string>;

KEPT int vectors(const std::vector<int> &v, std::vector<int> w, std::vector<int> *p, int after)
{
    say("[\"vectors\",[[%d,%d,%d],[%d],[],%d],%d]", v[0], v[1], v[2], w[0], after, after);
    return after;
}

KEPT int thousand(const std::vector<int> &v)
{
    say("[\"thousand\",[[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]],%d]", (int)v.size());
    return v.size();
}

KEPT std::vector<int> returned(int i)
{
    say("[\"returned\",[%d],[%d,%d]]", i, i, i + 1);
    return {i, i + 1};
}

KEPT int texts(const Texts &t)
{
    say("[\"texts\",[[\"%s\",\"%s\"]],1]", t[0].c_str(), t[1].c_str());
    return 1;
}

KEPT int nested(const std::vector<std::vector<short>> &v)
{
    say("[\"nested\",[[[%d,%d],[],[%d]]],2]", v[0][0], v[0][1], v[2][0]);
    return 2;
}

KEPT int maps(const Names &m, const std::set<long> &s, std::map<int, int> *empty)
{
    std::string all;
    for (auto &[key, value] : m)
        all += (all.empty() ? "" : ",") + ("{\"first\":" + std::to_string(key)) + ",\"second\":\"" + value + "\"}";
    std::string longs;
    for (long one : s)
        longs += (longs.empty() ? "" : ",") + std::to_string(one);
    say("[\"maps\",[[%s],[%s],[]],3]", all.c_str(), longs.c_str());
    return 3;
}

KEPT int maybe(std::optional<int> a, const std::optional<int> &b, const std::optional<std::string> &c,
                  const std::optional<std::string> &d)
{
    say("[\"maybe\",[%d,null,\"%s\",null],4]", *a, c->c_str());
    return 4;
}

KEPT int owned(std::unique_ptr<Point> u, const std::shared_ptr<Point> &s, const std::unique_ptr<int> &none)
{
    say("[\"owned\",[{\"Base\":{\"kind\":%d},\"x\":%d,\"y\":%d},{\"Base\":{\"kind\":%d},\"x\":%d,\"y\":%d},null],5]", u->kind, u->x,
        u->y, s->kind, s->x, s->y);
    return 5;
}

KEPT int shared(std::shared_ptr<Point> p, int after, std::shared_ptr<int> none)
{
    say("[\"shared\",[{\"Base\":{\"kind\":%d},\"x\":%d,\"y\":%d},%d,null],8]", p->kind, p->x, p->y, after);
    return 8;
}

KEPT std::shared_ptr<int> share(int i)
{
    say("[\"share\",[%d],%d]", i, i + 1);
    return std::make_shared<int>(i + 1);
}

KEPT int strings(std::string brief, int after, std::string lengthy, const std::string &reference)
{
    say("[\"strings\",[\"%s\",%d,\"%s\",\"%s\"],%d]", brief.c_str(), after, lengthy.c_str(), reference.c_str(), after);
    return after;
}

KEPT std::string string(std::string text)
{
    say("[\"string\",[\"%s\"],\"%s\"]", text.c_str(), text.c_str());
    return text;
}

KEPT int named(Holder h, int after)
{
    say("[\"named\",[{\"name\":\"%s\",\"numbers\":[%d]},%d],%d]", h.name.c_str(), h.numbers[0], after, after);
    return after;
}

KEPT int holder(Holder *h, const std::string_view &view, std::pair<int, const char *> p)
{
    say("[\"holder\",[{\"name\":\"%s\",\"numbers\":[%d,%d]},\"%.*s\",{\"first\":%d,\"second\":\"%s\"}],6]", h->name.c_str(),
        h->numbers[0], h->numbers[1], (int)view.size(), view.data(), p.first, p.second);
    return 6;
}

KEPT int object(Virtual *v)
{
    say("[\"object\",[{\"number\":%d}],7]", v->number);
    return 7;
}

int main()
{
    std::vector<int> none, many(1000);
    for (int i = 0; i < 1000; i++)
        many[i] = i;
    vectors({1, 2, 3}, {4}, &none, 5);
    thousand(many);
    returned(6);
    texts({"short", "one that is too long to be kept inside of the string"});
    nested({{1, 2}, {}, {3}});
    std::map<int, int> empty;
    maps({{5, "five"}, {1, "one"}, {3, "three"}, {2, "two"}}, {30, 10, 20, -5, 7, 15}, &empty);
    maybe(8, std::nullopt, "nine", std::nullopt);
    auto point = [](short kind, int x, int y) {
        Point p;
        p.kind = kind, p.x = x, p.y = y;
        return p;
    };
    owned(std::make_unique<Point>(point(1, 2, 3)), std::make_shared<Point>(point(4, 5, 6)), nullptr);
    Holder h{"a holder", {7, 8}};
    holder(&h, "a view", {9, "ten"});
    Virtual v;
    object(&v);
    shared(std::make_shared<Point>(point(7, 8, 9)), 10, nullptr);
    share(11);
    strings("brief", 12, "one that is too long to be kept inside of the string", "");
    strings("", 13, "2", h.name);
    string("brief");
    string("one that is too long to be kept inside of the string");
    named({"a name", {14}}, 15);
    return 0;
}
