/* Functions in every kind of place a recorder has to decide about. One file for all processors and all
 * ways to ask for a hook; build.py has the command of each object.
 *
 * -DHOOK=name is the hook symbol of the processor: two references here take its address, and neither is
 * a call site. */

#define SECTION(name) __attribute__((section(name)))
#define NOINLINE __attribute__((noinline))

extern void HOOK(void);
extern int outside(int);

/* A reference from data. */
void *hook_pointer = (void *)HOOK;

int sample_global(int x)
{
	return outside(x + 1) * 3;
}

/* Local: found by its section and offset only. */
static NOINLINE int sample_static(int x)
{
	return outside(x) ^ x;
}

__attribute__((weak)) int sample_weak(int x)
{
	return x + 7;
}

/* A reference from code, in a function that has a call site of its own. */
void *hook_address(void)
{
	return (void *)HOOK;
}

/* The only symbol of its section, and weak: another object may override it. */
SECTION(".sched.text") __attribute__((weak)) int sample_weak_only(int x)
{
	return x - 1;
}

SECTION(".init.text") int sample_init(int x)
{
	return sample_static(x) + sample_static(x + 1);
}

/* .exit.text is not recorded by Linux's section policy, yet it has call sites. */
SECTION(".exit.text") int sample_exit(int x)
{
	return outside(x) - 2;
}

SECTION(".text.unlikely") static NOINLINE int sample_unlikely(int x)
{
	return outside(x) + 11;
}

SECTION(".ref.text") int sample_ref(int x)
{
	return sample_unlikely(x) + 5;
}

/* No hook at all. */
SECTION(".noinstr.text")
#ifdef PATCHABLE
__attribute__((patchable_function_entry(0, 0)))
#endif
__attribute__((no_instrument_function)) int sample_untraced(int x)
{
	return x + 13;
}
