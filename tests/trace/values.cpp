/* As values.c, for what C++ adds: references, methods, classes that are passed by reference, strings. */
#include <cstdarg>
#include <cstdio>
#include <cstdint>
#include <memory>
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

enum class Level : uint8_t { Low, High = 200 };
enum class Sign : signed char { Minus = -1, Plus = 1 };

namespace shapes
{
struct Empty {
};
struct Point {
    double x, y;
};
struct Named : Point {
    int number;
};
/* Copying it takes a function, so it's passed by reference. */
struct Guarded {
    int number;
    Guarded(int number) : number(number) {}
    Guarded(const Guarded &other) : number(other.number + 1) {}
    ~Guarded() {}
};
struct Virtual {
    int number = 4;
    virtual ~Virtual() {}
    KEPT virtual int method(int i) const
    {
        say("[\"method\",[\"%#lx\",%d],%d]", (long)this, i, i + number);
        return i + number;
    }
};
class Counter
{
    int count = 0;

  public:
    KEPT int add(int by, const char *why)
    {
        count += by;
        say("[\"add\",[\"%#lx\",%d,\"%s\"],%d]", (long)this, by, why, count);
        return count;
    }
    KEPT static int twice(short i)
    {
        say("[\"twice\",[%d],%d]", i, 2 * i);
        return 2 * i;
    }
};
} // namespace shapes
using namespace shapes;

KEPT Level levels(Level level, Sign sign)
{
    say("[\"levels\",[\"%s\",\"%s\"],\"High\"]", level == Level::Low ? "Low" : "High", sign == Sign::Minus ? "Minus" : "Plus");
    return Level::High;
}

KEPT Point points(Point p, const Point &r, Empty e, int after)
{
    say("[\"points\",[{\"x\":%g,\"y\":%g},\"%#lx\",{},%d],{\"x\":%g,\"y\":%g}]", p.x, p.y, (long)&r, after, r.x, r.y);
    return r;
}

KEPT int guarded(Guarded g, int after, std::unique_ptr<int> owned, int last)
{
    say("[\"guarded\",[null,%d,null,%d],%d]", after, last, last);
    return last;
}

KEPT Guarded guard(int number)
{
    say("[\"guard\",[%d],null]", number);
    return Guarded(number);
}

KEPT int named(Named n, int after)
{
    say("[\"named\",[{\"number\":%d,\"Point\":{\"x\":%g,\"y\":%g}},%d],%d]", n.number, n.x, n.y, after, after);
    return after;
}

KEPT std::string strings(std::string value, const std::string &reference, std::string &&moved, std::string *pointer)
{
    say("[\"strings\",[\"%s\",\"%s\",\"%s\",\"%s\"],\"%s\"]", value.c_str(), reference.c_str(), moved.c_str(), pointer->c_str(),
        reference.c_str());
    return reference;
}

KEPT std::string_view views(std::string_view a, int b, std::string_view c)
{
    say("[\"views\",[\"%.*s\",%d,\"%.*s\"],\"%.*s\"]", (int)a.size(), a.data(), b, (int)c.size(), c.data(), (int)c.size(),
        c.data());
    return c;
}

KEPT int vectors(const std::vector<int> &v, std::vector<int> w, int after)
{
    say("[\"vectors\",[\"%#lx\",null,%d],%d]", (long)&v, after, after);
    return after;
}

KEPT int overloaded(int i)
{
    say("[\"overloaded\",[%d],1]", i);
    return 1;
}

KEPT int overloaded(const char *s)
{
    say("[\"overloaded\",[\"%s\"],2]", s);
    return 2;
}

template <typename T> KEPT T generic(T a, T *b)
{
    say("[\"generic\",[%g,\"%#lx\"],%g]", (double)a, (long)b, (double)a);
    return a;
}

KEPT int thrower(int i)
{
    say("[\"thrower\",[%d],null]", i);
    throw i;
}

KEPT int null(std::nullptr_t n, wchar_t w, char16_t c, char32_t d)
{
    say("[\"null\",[\"0x0\",%d,\"x\",\"y\"],1]", (int)w);
    return 1;
}

int main()
{
    levels(Level::Low, Sign::Minus);
    levels(Level::High, Sign::Plus);
    Point p{1.5, -2};
    points({3, 4.25}, p, {}, 5);
    guarded(Guarded(1), 2, std::make_unique<int>(3), 4);
    guard(6);
    Named n;
    n.x = 1.5, n.y = 2.5, n.number = 7;
    named(n, 8);
    std::string brief = "short", lengthy = "this one is too long to be kept inside of the string";
    strings("value", lengthy, std::string("moved"), &brief);
    strings("", brief, std::string(lengthy), &lengthy);
    views("a view", 1, std::string_view("another one", 7));
    vectors({1, 2}, {3}, 4);
    overloaded(1);
    overloaded("one");
    double d = 2.5;
    int i = 3;
    generic(d, &d);
    generic(i, &i);
    Counter counter;
    counter.add(5, "five");
    counter.add(-2, "less");
    Counter::twice(-4);
    Virtual *v = new Virtual;
    v->method(9);
    try {
        thrower(10);
    } catch (int) {
    }
    null(nullptr, L'w', u'x', U'y');
    return 0;
}
