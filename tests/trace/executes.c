// Its second thread executes the program again. From then on, that thread has the number of the first one, which has ended.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *execute(void *path) {
	execl(path, path, "again", (char *)0);
	return 0;
}

int main(int count, char **arguments) {
	pthread_t thread;
	if (count > 1) {
		for (int done = 0; done < 50; done++)
			syscall(SYS_getppid);
		return 7;
	}
	if (pthread_create(&thread, 0, execute, arguments[0]) == 0)
		pthread_join(thread, 0);
	return 1;
}
