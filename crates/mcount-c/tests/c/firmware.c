/* Checks its own table, as an RTOS would use it. Exits with the number of entries. */
extern const unsigned long trace_sites_start[] __attribute__((weak)), trace_sites_end[] __attribute__((weak));
__attribute__((no_instrument_function)) void __fentry__(void) { }
__attribute__((noinline)) int one(int x) { return x + 1; }
__attribute__((noinline)) int two(int x) { return one(x) * 2; }
int main(void)
{
	int (*const hooked[])(int) = { one, two };
	int found = 0;
	for (const unsigned long *at = trace_sites_start; at < trace_sites_end; at++) {
		if (at > trace_sites_start && at[-1] >= *at)
			return 100;
		for (int i = 0; i < 2; i++)
			found += *at == (unsigned long)hooked[i];
	}
	if (trace_sites_end != trace_sites_start && found != 2)
		return 101;
	return trace_sites_end - trace_sites_start + two(0) - 2;
}
