/* The first program of the machine: it loads modules, mounts the disk, has the shell there run the job, and ends the machine. */
#include <fcntl.h>
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
