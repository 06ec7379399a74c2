/* Threads that sleep again and again, and are moved between processors meanwhile: within their system calls, and between them. Each tells
 * how often it has slept. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, MOST = 64 };

static int times, processors[MOST], count;
static pid_t ids[THREADS];
static int is_done;

static void *sleeper(void *place)
{
	struct timespec little = {0, 20000};
	__atomic_store_n((pid_t *)place, gettid(), __ATOMIC_SEQ_CST);
	for (int i = 0; i < times; i++)
		syscall(SYS_nanosleep, &little, (void *)0);
	return 0;
}

static void *mover(void *unused)
{
	unsigned random = 1;
	while (!__atomic_load_n(&is_done, __ATOMIC_SEQ_CST)) {
		random = random * 1664525 + 1013904223;
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(processors[(random >> 16) % count], &set);
		pid_t id = __atomic_load_n(&ids[(random >> 8) % THREADS], __ATOMIC_SEQ_CST);
		if (id)
			sched_setaffinity(id, sizeof set, &set);
		for (unsigned i = 0; i < (random >> 20); i++)
			__asm__ volatile("");
	}
	return unused;
}

int main(int argc, char **argv)
{
	cpu_set_t all;
	pthread_t sleepers[THREADS], moving;
	times = argc > 1 ? atoi(argv[1]) : 1000;
	sched_getaffinity(0, sizeof all, &all);
	for (int i = 0; i < CPU_SETSIZE && count < MOST; i++)
		if (CPU_ISSET(i, &all))
			processors[count++] = i;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&sleepers[i], 0, sleeper, &ids[i]);
	pthread_create(&moving, 0, mover, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(sleepers[i], 0);
	__atomic_store_n(&is_done, 1, __ATOMIC_SEQ_CST);
	pthread_join(moving, 0);
	printf("%d\n", THREADS * times);
	return 0;
}
