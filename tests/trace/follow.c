/* As values.c, for what pointers lead to, with two pointers one in the other: a line of JSON for each call. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __clang__
#define KEPT __attribute__((noinline, noclone, used, optnone))
#else
#define KEPT __attribute__((noinline, noclone, used, noipa))
#endif

__attribute__((format(printf, 1, 2), patchable_function_entry(0, 0))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

enum color { RED, GREEN = 5 };
struct point { int x, y; };
struct user { int id; const char *name; char tag[8]; double weights[2]; enum color color; bool ok; };
struct node { int value; struct node *next; };
struct table { short cells[2][3]; struct point corners[2]; const char *names[2]; };
struct large { long head; long numbers[100]; int tail; };
struct odd { unsigned a : 3; unsigned b : 5; union { long l; double d; } u; char last; };
struct word { char text[100]; };
struct __attribute__((packed)) packed { char c; long l; const char *s; };
struct hidden;

KEPT struct point *points(const struct point *p, struct point *q)
{
    say("[\"points\",[{\"x\":%d,\"y\":%d},null],{\"x\":%d,\"y\":%d}]", p->x, p->y, p->x, p->y);
    return (struct point *)p;
}

KEPT int user(struct user *u, int after)
{
    say("[\"user\",[{\"id\":%d,\"name\":\"%s\",\"tag\":\"%.8s\",\"weights\":[%g,%g],\"color\":\"%s\",\"ok\":%s},%d],1]", u->id,
        u->name, u->tag, u->weights[0], u->weights[1], u->color == RED ? "RED" : "GREEN", u->ok ? "true" : "false", after);
    return 1;
}

KEPT int by_value(struct user u)
{
    say("[\"by_value\",[{\"id\":%d,\"name\":\"%s\",\"tag\":\"%.8s\",\"weights\":[%g,%g],\"color\":\"%s\",\"ok\":%s}],2]", u.id,
        u.name, u.tag, u.weights[0], u.weights[1], u.color == RED ? "RED" : "GREEN", u.ok ? "true" : "false");
    return 2;
}

KEPT struct node pair(struct node n)
{
    say("[\"pair\",[{\"value\":%d,\"next\":{\"value\":%d,\"next\":{\"value\":%d,\"next\":\"%#lx\"}}}],"
        "{\"value\":%d,\"next\":{\"value\":%d,\"next\":{\"value\":%d,\"next\":\"%#lx\"}}}]",
        n.value, n.next->value, n.next->next->value, (long)n.next->next->next, n.value, n.next->value, n.next->next->value,
        (long)n.next->next->next);
    return n;
}

KEPT int list(struct node *n)
{
    say("[\"list\",[{\"value\":%d,\"next\":{\"value\":%d,\"next\":\"%#lx\"}}],%d]", n->value, n->next->value, (long)n->next->next,
        n->value);
    return n->value;
}

KEPT int table(struct table *t)
{
    say("[\"table\",[{\"cells\":[%d,%d,%d,%d,%d,%d],\"corners\":[{\"x\":%d,\"y\":%d},{\"x\":%d,\"y\":%d}],\"names\":[\"%s\",\"%s\"]}],3]",
        t->cells[0][0], t->cells[0][1], t->cells[0][2], t->cells[1][0], t->cells[1][1], t->cells[1][2], t->corners[0].x,
        t->corners[0].y, t->corners[1].x, t->corners[1].y, t->names[0], t->names[1]);
    return 3;
}

KEPT int large(struct large *l)
{
    say("[\"large\",[{\"head\":%ld,\"numbers\":[%ld,%ld,%ld,%ld,%ld,%ld,%ld],\"...\":null}],%d]", l->head, l->numbers[0],
        l->numbers[1], l->numbers[2], l->numbers[3], l->numbers[4], l->numbers[5], l->numbers[6], l->tail);
    return l->tail;
}

KEPT int odd(struct odd *o, struct word *w, struct packed *p)
{
    say("[\"odd\",[{\"last\":\"%c\"},{\"text\":\"%.64s\"},{\"c\":\"%c\",\"l\":%ld,\"s\":\"%s\"}],4]", o->last, w->text, p->c, p->l,
        p->s);
    return 4;
}

KEPT int plain(int *i, double *d, char **text, void *v, struct hidden *h, int (*f)(struct node *))
{
    say("[\"plain\",[%d,%g,\"%s\",\"%#lx\",\"%#lx\",\"%#lx\"],%d]", *i, *d, *text, (long)v, (long)h, (long)f, *i);
    return *i;
}

KEPT int bad(struct user *u, int after)
{
    say("[\"bad\",[null,%d],%d]", after, after);
    return after;
}

/* The end of the page cuts it off. */
KEPT int edge(struct point *p)
{
    say("[\"edge\",[null],5]");
    return 5;
}

/* More than a record has room for: the last ones are missing. */
KEPT int many(char *a, char *b, char *c, char *d, char *e, char *f, char *g, char *h, int last)
{
    say("[\"many\",[\"%.64s\",\"%.64s\",\"%.64s\",\"%.64s\",\"%.64s\",\"%.64s\",\"%.37s\",null,null],%d]", a, b, c, d, e, f, g, last);
    return last;
}

int main(void)
{
    struct point p = {3, -4};
    struct user u = {7, "seven", "tagged!", {0.5, -2}, GREEN, true};
    struct node third = {30, (struct node *)0x5000}, second = {20, &third}, first = {10, &second};
    struct node cyclic = {40, &cyclic};
    struct table t = {{{1, 2, 3}, {4, 5, 6}}, {{7, 8}, {9, 10}}, {"eleven", "twelve"}};
    static struct large l = {1, {2, 3, 4, 5, 6, 7, 8, 9}, 10};
    struct odd o = {1, 2, {3}, 'z'};
    struct word w = {"a word, and it is longer than what is recorded of any text without an option that says so"};
    struct packed packed = {'q', -5, "packed"};
    points(&p, NULL);
    user(&u, 8);
    memcpy(u.tag, "12345678", 8);
    u.color = RED;
    user(&u, 9);
    by_value(u);
    pair(first);
    pair(cyclic);
    list(&first);
    list(&cyclic);
    table(&t);
    large(&l);
    odd(&o, &w, &packed);
    int i = 13;
    double d = 2.5;
    char *text = "text";
    plain(&i, &d, &text, &p, (struct hidden *)&t, list);
    bad(NULL, 1);
    bad((struct user *)1, 2);
    bad((struct user *)-1, 3);
    bad((struct user *)0x7ffffffffff8, 4);
    bad((struct user *)0xdead000000000000, 5);
    char *pages = mmap(NULL, 2 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 65536, 65536, PROT_NONE);
    edge((struct point *)(pages + 65536 - 4));
    struct point *whole = (struct point *)(pages + 65536 - 8);
    *whole = (struct point){14, 15};
    points(whole, NULL);
    char long_text[101] = {0};
    memset(long_text, 'l', 100);
    many(long_text, long_text, long_text, long_text, long_text, long_text, long_text, long_text, 16);
    return 0;
}
