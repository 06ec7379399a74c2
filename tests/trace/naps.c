// Threads that leave the processor: they sleep, or have to make room for another. The kernel counts how often
// (getrusage), and that is printed: what the thread of each line did, with the functions `NAME_inner` within and `NAME_outer`
// around what was counted. With an argument, it waits for a line before.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OFTEN 10
#define MICROSECONDS 1500

static _Atomic int pushed;

__attribute__((noinline)) void nap_inner(void)
{
	struct timespec time = { 0, MICROSECONDS * 1000 };
	nanosleep(&time, NULL);
	__asm__ volatile("");
}

__attribute__((noinline, no_instrument_function, patchable_function_entry(0, 0)))
static long involuntary(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

// Two threads on one processor: each is in the other's way until both were pushed aside often enough.
__attribute__((noinline)) void spin_inner(void)
{
	long before = involuntary();
	int done = 0;
	while (pushed < 2)
		if (!done && involuntary() - before >= OFTEN) {
			done = 1;
			pushed++;
		}
}

static void print(const char *what, const struct rusage *before, const struct rusage *after)
{
	printf("%s %d %ld %ld\n", what, gettid(), after->ru_nvcsw - before->ru_nvcsw,
	       after->ru_nivcsw - before->ru_nivcsw);
}

__attribute__((noinline)) void nap_outer(void)
{
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	nap_inner();
	getrusage(RUSAGE_THREAD, &after);
	print("nap", &before, &after);
}

__attribute__((noinline)) void spin_outer(void)
{
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	spin_inner();
	getrusage(RUSAGE_THREAD, &after);
	print("spin", &before, &after);
}

static pthread_barrier_t all;

static void *work(void *unused)
{
	pthread_barrier_wait(&all);
	cpu_set_t set;
	int cpu = 0;
	sched_getaffinity(0, sizeof set, &set);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
	spin_outer();
	return NULL;
}

int main(int count, char **arguments)
{
	char line[9];
	pthread_t threads[2];
	pthread_barrier_init(&all, NULL, 3);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	if (count > 1) {
		puts("ready");
		fflush(stdout);
		fgets(line, sizeof line, stdin);
	}
	pthread_barrier_wait(&all);
	for (int i = 0; i < OFTEN; i++)
		nap_outer();
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
