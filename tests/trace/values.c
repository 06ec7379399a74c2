/* Prints a line of JSON for each call of its functions, when it returns: name, arguments, result. The trace has to say
 * the same. Numbers with a point are such that few digits say all of them.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define TRACED __attribute__((noinline, noclone, used))
#ifdef __clang__
#define KEPT TRACED __attribute__((optnone))
#else
#define KEPT TRACED __attribute__((noipa))
#endif

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
    __attribute__((no_instrument_function));

/* Not traced: its arguments are of no interest. */
__attribute__((patchable_function_entry(0, 0))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

enum color { RED, GREEN = 5, BLUE = -7 };
enum wide { SMALL = 1, LARGE = 0x7fffffffffffffffLL };
struct point { int x, y; };
struct mixed { double a; long b; };
struct three { char a; short b; float c; };
struct floats { float x, y, z; };
struct sides { double all[4]; float more; };
struct corners { double all[4]; };
struct large { long a, b, c; };
struct pair { long x, y; };
struct nested { struct point at; short sizes[2]; enum color color; };
struct packed { char a; long b; } __attribute__((packed));
struct bits { unsigned a : 3; unsigned b : 29; int c; };
union either { long number; double real; };
typedef unsigned short port;

KEPT int sizes(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f)
{
    say("[\"sizes\",[%d,%d,%d,%d,%d,%u],%d]", a, b, c, d, e, f, a - e);
    return a - e;
}

KEPT unsigned long long longs(long a, unsigned long b, long long c, size_t d, port e, int64_t f)
{
    unsigned long long sum = ~0ULL - (unsigned long long)a;
    say("[\"longs\",[%ld,%lu,%lld,%zu,%d,%lld],%llu]", a, b, c, d, e, (long long)f, sum);
    return sum;
}

KEPT bool small(bool yes, bool no, char letter, enum color color, enum wide wide)
{
    say("[\"small\",[%s,%s,\"%c\",\"%s\",\"%s\"],%s]", yes ? "true" : "false", no ? "true" : "false", letter,
        color == RED ? "RED" : color == GREEN ? "GREEN" : "BLUE", wide == SMALL ? "SMALL" : "LARGE",
        yes ? "true" : "false");
    return yes;
}

KEPT enum color unnamed(enum color color)
{
    say("[\"unnamed\",[%u],\"BLUE\"]", color);
    return BLUE;
}

KEPT double reals(float a, double b, float c, double d)
{
    say("[\"reals\",[%g,%g,%g,%g],%g]", a, b, c, d, a + b + c + d);
    return a + b + c + d;
}

KEPT float halved(float a)
{
    say("[\"halved\",[%g],%g]", a, a / 2);
    return a / 2;
}

KEPT long double extended(long double a, int b, long double c)
{
    say("[\"extended\",[%Lg,%d,%Lg],%Lg]", a, b, c, a - c);
    return a - c;
}

/* More than there are registers for. */
KEPT long many(int a, double b, long c, float d, short e, double f, int g, double h, char *i, double j, long k, double l,
               signed char m, double n, double o, float p, const char *q)
{
    say("[\"many\",[%d,%g,%ld,%g,%d,%g,%d,%g,\"%s\",%g,%ld,%g,%d,%g,%g,%g,\"%s\"],%d]", a, b, c, d, e, f, g, h, i, j, k,
        l, m, n, o, p, q, g);
    return g;
}

KEPT struct point swapped(struct point p)
{
    struct point q = {p.y, p.x};
    say("[\"swapped\",[{\"x\":%d,\"y\":%d}],{\"x\":%d,\"y\":%d}]", p.x, p.y, q.x, q.y);
    return q;
}

KEPT struct mixed turned(struct mixed m, int i)
{
    struct mixed r = {m.b, (long)m.a};
    say("[\"turned\",[{\"a\":%g,\"b\":%ld},%d],{\"a\":%g,\"b\":%ld}]", m.a, m.b, i, r.a, r.b);
    return r;
}

KEPT struct floats triple(struct floats f, struct three t)
{
    struct floats r = {f.z, f.y, t.c};
    say("[\"triple\",[{\"x\":%g,\"y\":%g,\"z\":%g},{\"a\":\"%c\",\"b\":%d,\"c\":%g}],{\"x\":%g,\"y\":%g,\"z\":%g}]", f.x, f.y,
        f.z, t.a, t.b, t.c, r.x, r.y, r.z);
    return r;
}

/* The first is in four vector registers on AArch64, and the second isn't. */
KEPT int around(struct corners c, double scale, struct sides s, double last)
{
    say("[\"around\",[{},%g,{\"more\":%g},%g],%d]", scale, s.more, last, (int)c.all[3]);
    return (int)c.all[3];
}

/* The result goes where a hidden argument says; the structure is on the stack, what follows is in registers. */
KEPT struct large moved(int a, struct large l, int b, struct packed p)
{
    struct large r = {l.c, l.b, l.a};
    say("[\"moved\",[%d,{\"a\":%ld,\"b\":%ld,\"c\":%ld},%d,{\"a\":\"%c\",\"b\":%ld}],{\"a\":%ld,\"b\":%ld,\"c\":%ld}]", a, l.a, l.b,
        l.c, b, p.a, p.b, r.a, r.b, r.c);
    return r;
}

/* No room for both halves: all of it is on the stack, and what follows still gets the last register. */
KEPT int squeezed(long a, long b, long c, long d, long e, struct mixed m, struct large l, struct pair s, int f)
{
    say("[\"squeezed\",[%ld,%ld,%ld,%ld,%ld,{\"a\":%g,\"b\":%ld},{\"a\":%ld,\"b\":%ld,\"c\":%ld},{\"x\":%ld,\"y\":%ld},%d],%d]", a,
        b, c, d, e, m.a, m.b, l.a, l.b, l.c, s.x, s.y, f, f);
    return f;
}

KEPT int inner(struct nested n, union either u, struct bits b, int last)
{
    say("[\"inner\",[{\"at\":{\"x\":%d,\"y\":%d},\"color\":\"GREEN\"},{},{\"c\":%d},%d],%d]", n.at.x, n.at.y, b.c, last, last);
    return last;
}

KEPT const char *text(const char *a, char *b)
{
    say("[\"text\",[\"%s\",\"%s\"],\"%s\"]", a, b, b);
    return b;
}

/* What it is told, and what the trace says, differ: the pointer is bad. */
KEPT const char *bad(const char *a)
{
    say("[\"bad\",[null],null]");
    return a;
}

KEPT void edge(const char *page_end)
{
    say("[\"edge\",[\"%s\"],null]", page_end);
}

KEPT int cut(const char *all, const char *seen)
{
    say("[\"cut\",[\"%s\",\"%s\"],1]", seen, seen);
    return 1;
}

KEPT void over(const char *end, int length)
{
    say("[\"over\",[\"%.*s\",%d],null]", length, end, length);
}

KEPT void *address(void *p, int (*f)(void), int *i)
{
    say("[\"address\",[\"%#lx\",\"%#lx\",\"0x0\"],\"%#lx\"]", (long)p, (long)f, (long)p);
    return p;
}

KEPT long recursive(long depth)
{
    long r = depth == 0 ? 0 : recursive(depth - 1) + 1;
    say("[\"recursive\",[%ld],%ld]", depth, r);
    return r;
}

KEPT int variadic(const char *format, ...)
{
    say("[\"variadic\",[\"%s\"],2]", format);
    return 2;
}

KEPT int main(int argc, char **argv)
{
    if (argc > 1) {
        /* Until somebody has attached. */
        puts("ready");
        fflush(stdout);
        getchar();
    }
    sizes(-1, 200, -30000, 60000, -2000000000, 4000000000u);
    longs(-5, 1UL << 63, -(1LL << 62), 7, 65535, -1);
    small(true, false, 'x', BLUE, LARGE);
    small(false, true, '7', GREEN, SMALL);
    unnamed((enum color)77);
    reals(1.5f, -2.25, 1024.5f, 0.25);
    halved(-0.5f);
    extended(1.5L, 3, 0.25L);
    many(1, 2.5, 3, 4.5f, -5, 6.5, -7, 8.5, "nine", 10.5, 11, 12.5, -13, 14.5, 15.5, 16.5f, "seventeen");
    swapped((struct point){3, -4});
    turned((struct mixed){2.5, -9}, 8);
    triple((struct floats){1.5f, 2.5f, 3.5f}, (struct three){'t', -2, 4.5f});
    around((struct corners){{1, 2, 3, 4}}, 5.5, (struct sides){{6, 7, 8, 9}, 10.5f}, 11.5);
    moved(1, (struct large){2, 3, 4}, 5, (struct packed){'p', -6});
    squeezed(1, 2, 3, 4, 5, (struct mixed){1.5, 6}, (struct large){7, 8, 9}, (struct pair){10, 11}, 12);
    inner((struct nested){{1, 2}, {3, 4}, GREEN}, (union either){5}, (struct bits){1, 2, 3}, 6);
    text("hello", "world");
    text("", "umlauts: \xc3\xa4\xc3\xb6");
    bad(NULL);
    bad((const char *)16);
    bad((const char *)0xdead000000000000);
    bad((const char *)-1);
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 2 * 4096, 4096, PROT_NONE);
    strcpy(pages + 2 * 4096 - 4, "end");
    edge(pages + 2 * 4096 - 4);
    edge(pages + 2 * 4096 - 1);
    strcpy(pages + 4096 - 5, "over the edge");
    edge(pages + 4096 - 5);
    memset(pages + 2 * 4096 - 10, 'e', 10);
    over(pages + 2 * 4096 - 10, 10);
    bad(pages + 2 * 4096);
    static char million[1 << 20];
    memset(million, 'm', sizeof million - 1);
    char some[65] = {0};
    memset(some, 'm', 64);
    cut(million, some);
    address(main, (int (*)(void))main, NULL);
    recursive(3);
    variadic("many", 1, 2.5);
    return 0;
}
