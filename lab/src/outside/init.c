/* The user space of a kernel in which programs are traced: it mounts what tests need, runs the test programs for each word of the
 * kernel's command line behind `--`, and ends the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void mounted(const char *kind, const char *place)
{
	mkdir(place, 0755);
	if (mount(kind, place, kind, 0, strcmp(kind, "tmpfs") ? "" : "size=90%"))
		printf("outside: FAILED to mount %s\n", place);
}

static int run(const char *program, char *filter)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		setsid();
		if (chdir(FOLDER))
			_exit(126);
		execl(program, program, filter, "--color=never", "--test-threads=1", (char *)0);
		_exit(127);
	}
	/* Others end here as well, whose parents have. */
	while (wait(&status) != child)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void set(const char *what, const char *value)
{
	FILE *file = fopen(what, "w");
	if (file) {
		fputs(value, file);
		fclose(file);
	}
}

int main(int count, char **words)
{
	mounted("proc", "/proc");
	mounted("sysfs", "/sys");
	mounted("devtmpfs", "/dev");
	mounted("tmpfs", "/dev/shm");
	/* If the project is below it, that's hidden otherwise. */
	if (strncmp(ROOM, "/tmp/", 5))
		mounted("tmpfs", "/tmp");
	mounted("tmpfs", ROOM);
	/* The kernel says where a program ended by a signal, and what its registers were. */
	set("/proc/sys/debug/exception-trace", "1");
	set("/proc/sys/kernel/printk", "7");
	/* Programs may read counters, where that's a setting. */
	set("/proc/sys/kernel/perf_user_access", "1");
	setenv("PATH", "/bin", 1);
	setenv("MCOUNT_PROGRAMS", "/programs", 1);
	setenv("MCOUNT_TIME_FACTOR", "5", 1);
	for (int i = 1; i < count; i++) {
		/* Not every processor has it. */
		int patch = access("/tests/patch", X_OK) ? 0 : run("/tests/patch", words[i]);
		int trace = run("/tests/trace", words[i]);
		printf("outside: %s: %d\n", words[i], patch ? patch : trace);
	}
	printf("outside: END\n");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 0;
}
