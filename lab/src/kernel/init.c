/* The user space of a kernel that shows its tracer: it counts what can be traced, switches tracers on,
 * loads a module, and prints a few lines of what they saw. What goes wrong is a line with FAILED. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"
#define MODULE "mcount_test"
#define GO "/sys/module/" MODULE "/parameters/go"
#define SCRATCH "/scratch"
#define FUNCTIONS 10

static char chosen[FUNCTIONS][64];

/* Writes `text` to a file; `mode` is O_TRUNC, or O_APPEND to add to a filter. */
static int put(const char *path, const char *text, int mode)
{
	int file = open(path, O_WRONLY | mode);
	int done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	if (file >= 0)
		close(file);
	if (!done)
		printf("mcount-test: FAILED to write %s to %s\n", text, path);
	return done;
}

/* How many lines of a file hold `needle`; the first `lines` of them are printed. */
static int count(const char *path, const char *needle, int lines)
{
	char line[512];
	int found = 0;
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		if (line[0] != '#' && strstr(line, needle) && found++ < lines)
			printf("mcount-test:   %s", line);
	}
	if (file)
		fclose(file);
	return found;
}

/* The first ten functions of the virtual file system, which every read of a file comes past. */
static int choose(void)
{
	char line[512];
	int found = 0;
	FILE *file = fopen(TRACING "available_filter_functions", "r");
	while (file && found < FUNCTIONS && fgets(line, sizeof line, file)) {
		line[strcspn(line, " \n")] = 0;
		/* PowerPC's ELFv1 has a dot before the names of code. */
		int fits = strncmp(line + (line[0] == '.'), "vfs_", 4) == 0 && strlen(line) < sizeof chosen[0];
		if (fits)
			strcpy(chosen[found++], line);
	}
	if (file)
		fclose(file);
	return found;
}

/* Whether a line of the trace speaks of a function that was chosen. */
static int is_chosen(const char *line)
{
	for (int i = 0; i < FUNCTIONS; i++)
		if (chosen[i][0] && strstr(line, chosen[i]))
			return 1;
	return 0;
}

/* How many lines of the trace speak of something else. */
static int others(void)
{
	char line[512];
	int found = 0;
	FILE *file = fopen(TRACING "trace", "r");
	while (file && fgets(line, sizeof line, file))
		if (line[0] != '#' && strstr(line, "vfs_") && !is_chosen(line))
			found++;
	if (file)
		fclose(file);
	return found;
}

static void verdict(const char *what, int is_well)
{
	printf("mcount-test: %s: %s\n", what, is_well ? "ok" : "FAILED");
}

/* Something happens in the kernel while `tracer` looks. */
static void run(const char *tracer, const char *go)
{
	char text[64];
	put(TRACING "current_tracer", tracer, O_TRUNC);
	put(TRACING "trace", "", O_TRUNC);
	put(TRACING "tracing_on", "1", O_TRUNC);
	int file = open("/proc/self/stat", O_RDONLY);
	if (file >= 0 && read(file, text, sizeof text) < 0)
		puts("mcount-test: FAILED to read");
	close(file);
	/* More of the functions that are chosen: arm graphs none without a stack frame, as vfs_open is. */
	file = open(SCRATCH, O_RDWR | O_CREAT, 0600);
	if (fchmod(file, 0644) || lseek(file, 0, SEEK_SET) || truncate(SCRATCH, 1))
		puts("mcount-test: FAILED to change " SCRATCH);
	close(file);
	if (go)
		put(go, "1", 0);
	put(TRACING "tracing_on", "0", O_TRUNC);
}

static void trace(const char *tracer)
{
	char what[64];
	put(TRACING "set_ftrace_filter", "", O_TRUNC);
	run(tracer, 0);
	snprintf(what, sizeof what, "%s, all functions", tracer);
	verdict(what, count(TRACING "trace", "", 0) > 100);
	int n = choose();
	for (int i = 0; i < n; i++)
		put(TRACING "set_ftrace_filter", chosen[i], O_APPEND);
	int in_filter = count(TRACING "set_ftrace_filter", "vfs_", 0);
	run(tracer, 0);
	int lines = count(TRACING "trace", "vfs_", 3);
	snprintf(what, sizeof what, "%s, filter of %d functions", tracer, in_filter);
	verdict(what, in_filter == FUNCTIONS && lines > 0 && others() == 0);
	put(TRACING "current_tracer", "nop", O_TRUNC);
}

static void module(void)
{
	int file = open("/" MODULE ".ko", O_RDONLY);
	verdict("module loaded", syscall(SYS_finit_module, file, "", 0) == 0);
	int functions = count(TRACING "available_filter_functions", "[" MODULE "]", 9);
	verdict("module functions can be traced", functions >= 3);
	put(TRACING "set_ftrace_filter", ":mod:" MODULE, O_TRUNC);
	run("function", GO);
	int inner = count(TRACING "trace", "mcount_test_inner", 1);
	/* Linux 6.1 names it as RISC-V's mapping symbol at its start, "$xrv64...". */
	inner += count(TRACING "trace", "<-mcount_test_outer", 1);
	int outer = count(TRACING "trace", "mcount_test_outer", 1);
	verdict("module traced", inner && outer);
	put(TRACING "current_tracer", "nop", O_TRUNC);
}

/* What programs often ask of the kernel, untraced. With QEMU's -icount shift=0, a nanosecond is an instruction. */
static void work(void)
{
	struct timespec start, end;
	char text[64];
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 2000; i++) {
		int file = open("/proc/self/stat", O_RDONLY);
		if (file < 0 || read(file, text, sizeof text) <= 0 || close(file) != 0)
			puts("mcount-test: FAILED to read");
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	long long seconds = end.tv_sec - start.tv_sec;
	printf("mcount-test: work: %lld ns\n", seconds * 1000000000 + end.tv_nsec - start.tv_nsec);
}

int main(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, 0);
	setvbuf(stdout, 0, _IOLBF, 0);
	int functions = count(TRACING "available_filter_functions", "", 0);
	int invalid = count(TRACING "available_filter_functions", "__ftrace_invalid_address__", 3);
	printf("mcount-test: %d functions can be traced, %d are invalid\n", functions, invalid);
	count("/proc/kallsyms", " _stext", 1);
	work();
	trace("function");
	trace("function_graph");
	module();
	puts("MCOUNT-TEST-DONE");
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}
