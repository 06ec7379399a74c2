/* The user space of a kernel that shows its tracer: it counts what can be traced, switches tracers on,
 * and prints a few lines of what they saw. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"

static void put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, TRACING "%s", name);
	int file = open(path, O_WRONLY | O_TRUNC);
	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		printf("mcount-test: %s: cannot write %s\n", name, text);
	close(file);
}

/* Prints the first lines of a file that hold `needle`; how many there are. */
static int show(const char *name, const char *needle, int lines)
{
	char path[256], line[512];
	int count = 0;
	snprintf(path, sizeof path, TRACING "%s", name);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		if (line[0] == '#' || !strstr(line, needle))
			continue;
		if (count++ < lines)
			printf("mcount-test: %s: %s", name, line);
	}
	if (file)
		fclose(file);
	return count;
}

static void trace(const char *tracer, const char *filter)
{
	char text[16];
	put("set_ftrace_filter", filter);
	put("current_tracer", tracer);
	put("trace", "");
	put("tracing_on", "1");
	int file = open("/proc/self/stat", O_RDONLY);
	if (file >= 0 && read(file, text, sizeof text) < 0)
		puts("mcount-test: cannot read");
	close(file);
	put("tracing_on", "0");
	int lines = show("trace", "", 3);
	printf("mcount-test: %s, filter '%s': %s\n", tracer, filter, lines ? "traced" : "FAILED");
	put("current_tracer", "nop");
}

int main(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, 0);
	int functions = show("available_filter_functions", "", 0);
	int invalid = show("available_filter_functions", "__ftrace_invalid_address__", 3);
	printf("mcount-test: %d functions can be traced, %d are invalid\n", functions, invalid);
	trace("function", "");
	trace("function", "vfs_*");
	trace("function_graph", "vfs_*");
	puts("MCOUNT-TEST-DONE");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}
