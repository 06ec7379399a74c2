/* The user space of a kernel that loads two of its own modules, recorded anew, and traces them from their first function on. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_TRUNC);
	if (file < 0 || write(file, text, strlen(text)) < 0)
		printf("mcount-test: FAILED to write %s\n", path);
	close(file);
}

/* Prints what `path` says with `needle`, from the last `:` before it on if it has a time; how many lines there are. */
static int show(const char *path, const char *needle)
{
	char line[512];
	int found = 0;
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) {
		const char *time = strstr(line, ": ");
		if (line[0] == '#' || !strstr(line, needle))
			continue;
		printf("mcount-test:   %s", time ? time + 2 : line);
		found++;
	}
	if (file)
		fclose(file);
	return found;
}

static void load(const char *name)
{
	char text[64];
	snprintf(text, sizeof text, ":mod:%s", name);
	put(TRACING "set_ftrace_filter", text);
	put(TRACING "current_tracer", "function");
	put(TRACING "tracing_on", "1");
	snprintf(text, sizeof text, "/%s.ko", name);
	int file = open(text, O_RDONLY);
	long failed = syscall(SYS_finit_module, file, "", 0);
	close(file);
	file = open("/dev/loop0", O_RDONLY);
	close(file);
	put(TRACING "tracing_on", "0");
	snprintf(text, sizeof text, "[%s]", name);
	int functions = show(TRACING "available_filter_functions", text), calls = show(TRACING "trace", "<-");
	printf("mcount-test: %s, %d functions, %d calls: %s\n", name, functions, calls,
	       failed || !functions || !calls ? "FAILED" : "ok");
	put(TRACING "current_tracer", "nop");
}

int main(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, 0);
	setvbuf(stdout, 0, _IOLBF, 0);
	load("loop");
	load("dummy");
	puts("MCOUNT-TEST-DONE");
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}
