/* A program whose hook is the C library's: calls reach it through stubs of the linker. */
#define WHOLE __attribute__((noinline, noclone))

static WHOLE int leaf(int a) { return a * 3; }
static WHOLE int middle(int a) { return leaf(a) + leaf(a + 1); }

int main(void) { return middle(1) != 9; }
