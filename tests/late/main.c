/* Says how many entries the table has. */
int f(int a);

extern const void *const __start___mcount_loc[] __attribute__((weak, visibility("hidden")));
extern const void *const __stop___mcount_loc[] __attribute__((weak, visibility("hidden")));

int main(void) {
    return __stop___mcount_loc - __start___mcount_loc + 0 * f(1);
}
