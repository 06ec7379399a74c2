/* The first program of the machine: it loads modules, mounts the disk, has the shell there run the job, and ends the machine. */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES = 100, PAUSE = 100000 };

static void load(const char *name)
{
	char path[512];
	snprintf(path, sizeof path, "/modules/%s", name);
	int file = open(path, O_RDONLY);
	if (file < 0 || syscall(SYS_finit_module, file, "", 0))
		printf("timeline: FAILED to load %s\n", name);
	close(file);
}

static void mounted(const char *kind, const char *place)
{
	mkdir(place, 0755);
	if (mount(kind, place, kind, 0, ""))
		printf("timeline: FAILED to mount %s\n", place);
}

/* AArch64 kernels have oopsed in perf's part of the scheduler (perf_ctx_sched_task_cb, perf_event_task_tick) when its last event went
 * and another came, again and again. So one event stays. */
static void keep_perf(void)
{
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_DUMMY };
	if (syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
		printf("timeline: FAILED to keep an event\n");
}

static void end(void)
{
	sync();
	printf("timeline: END\n");
	fflush(stdout);
	reboot(RB_POWER_OFF);
}

int main(void)
{
	char line[256];
	FILE *list = fopen("/modules/list", "r");
	while (list && fgets(line, sizeof line, list)) {
		line[strcspn(line, "\n")] = 0;
		load(line);
	}
	mounted("devtmpfs", "/dev");
	mkdir("/disk", 0755);
	int tries = TRIES;
	while (mount("/dev/vda", "/disk", "ext4", 0, "") && --tries)
		usleep(PAUSE);
	if (!tries || chroot("/disk") || chdir("/")) {
		printf("timeline: FAILED to mount the disk\n");
		end();
	}
	mounted("proc", "/proc");
	mounted("sysfs", "/sys");
	mounted("devtmpfs", "/dev");
	mounted("tmpfs", "/tmp");
	mounted("tmpfs", "/run");
	mounted("tracefs", "/sys/kernel/tracing");
	keep_perf();
	pid_t child = fork();
	if (!child) {
		setsid();
		setenv("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
		execl("/bin/sh", "sh", "/job.sh", (char *)0);
		_exit(127);
	}
	int status;
	while (wait(&status) != child)
		;
	printf("timeline: %x\n", (unsigned)status);
	end();
	return 0;
}
