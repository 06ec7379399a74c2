/* The traced functions, for the table of them. */
#ifndef SAMPLES_H
#define SAMPLES_H

#ifdef __clang__
#define WHOLE __attribute__((noinline))
#else
#define WHOLE __attribute__((noinline, noclone, noipa))
#endif

/* samples.c */
int leaf(int a);
extern int (*const local)(int);
int weak(int a);
int recursive(int n);
int big_frame(int a);
int variadic(int count, ...);
long many(int a, long b, int c, long d, int e, long f, int g, long h, int i, long j);
int tail(int a);
int caller(int a);
const void *hook_in_code(void);
extern const void *const hook_in_data;

/* more.c */
int elsewhere(int a);
int last(int a);

/* weak.c */
int feeble(int a);

#endif
