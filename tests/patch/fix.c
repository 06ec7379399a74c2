// New functions for served.c, which use what's static there.
#include <stdio.h>
#include <string.h>
#ifndef ADDS
#define ADDS 100
#endif
extern int counter, helper(int);
extern _Thread_local int local;
static int calls;
int answer(int x) { calls++; counter += ADDS; local++; return helper(x) * 1000 + calls; }
int hidden(const char *text) {
    char twice[50];
    snprintf(twice, sizeof twice, "%s%s", text, text);
    return -(int)strlen(twice);
}
