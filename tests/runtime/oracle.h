/* What the parts of the runtime oracle know of each other. Everything is hidden, so that
   position-independent code reaches it without a GOT, which the hook could not always do. */
#ifndef ORACLE_H
#define ORACLE_H

#pragma GCC visibility push(hidden)

typedef unsigned char byte;
typedef __UINTPTR_TYPE__ word;

#define UNTRACED __attribute__((no_instrument_function))

/* A function that the table may name; traced ones must be in it exactly once. The pointer is
   indirect because only the other object knows the address of a static function. */
struct sample {
    const char *name;
    const void *const *function;
    int traced;
};

/* table.c: what there is to call, and one call of all of it. */
extern const struct sample samples[];
extern const unsigned sample_count;
long exercise(void);

/* common.c */
extern unsigned failures;
void say_text(const char *text);
void say_number(word value, unsigned base);
void fail(const char *what, const char *name, word value);
word start_of(unsigned i);

/* oracle.c */
void count_hook(const void *return_address);
void put(void *place, const void *bytes, unsigned size);
unsigned code16(const byte *place);
unsigned code32(const byte *place);
void put16(byte *place, unsigned instruction);
void put32(byte *place, unsigned instruction);

/* PROCESSOR/disarm.c: makes the hook at a recorded address do nothing, through put().
   0: there is no hook. */
int disarm(byte *site);

/* host.c, with a C library, or bare.c, without one. */
int make_writable(void *start, unsigned size);
void flush(void *start, unsigned size);
void say(const char *text, unsigned size);

#pragma GCC visibility pop

#endif
