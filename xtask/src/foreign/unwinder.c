/* What a static C program needs besides a C library where there's no libgcc: names that Rust's standard library and the
 * library refer to. No C program unwinds, so an unwinder finds the end of the stack at once. */
#include <stddef.h>
enum { END_OF_STACK = 5 };
/* Of a program that is never unloaded. */
void *__dso_handle __attribute__((visibility("hidden")));
int _Unwind_Backtrace(void *each, void *data) { return (void)each, (void)data, END_OF_STACK; }
int _Unwind_RaiseException(void *exception) { return (void)exception, END_OF_STACK; }
/* Nobody gets a context, so these aren't called. */
void _Unwind_Resume(void *exception) { (void)exception, __builtin_trap(); }
void _Unwind_DeleteException(void *exception) { (void)exception, __builtin_trap(); }
unsigned long _Unwind_GetIP(void *context) { (void)context, __builtin_trap(); }
unsigned long _Unwind_GetIPInfo(void *context, int *before) { (void)context, (void)before, __builtin_trap(); }
unsigned long _Unwind_GetGR(void *context, int which) { (void)context, (void)which, __builtin_trap(); }
unsigned long _Unwind_GetCFA(void *context) { (void)context, __builtin_trap(); }
unsigned long _Unwind_GetRegionStart(void *context) { (void)context, __builtin_trap(); }
unsigned long _Unwind_GetTextRelBase(void *context) { (void)context, __builtin_trap(); }
unsigned long _Unwind_GetDataRelBase(void *context) { (void)context, __builtin_trap(); }
void *_Unwind_GetLanguageSpecificData(void *context) { (void)context, __builtin_trap(); }
void *_Unwind_FindEnclosingFunction(void *address) { return (void)address, NULL; }
void _Unwind_SetIP(void *context, unsigned long to) { (void)context, (void)to, __builtin_trap(); }
void _Unwind_SetGR(void *context, int which, unsigned long to) { (void)context, (void)which, (void)to, __builtin_trap(); }
