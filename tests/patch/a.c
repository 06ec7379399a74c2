// One of two files that have a static function and a static variable of the same names.
static volatile int number = 1;
__attribute__((noinline)) static int same(void) { return number; }
int of_a(void) { return same(); }
