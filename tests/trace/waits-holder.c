/* A server whose threads wait for a lock that a quiet function has for long: `write_report`, while `publish` holds the lock. With an
   argument, the lock is also taken so often, and free so often, that its waits aren't worth what they cost. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long hits[64];
static volatile long sum;
static double end;
static int loops = 200000;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) void count_hit(int number)
{
	pthread_mutex_lock(&lock);
	hits[number & 63]++;
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void answer(int number)
{
	long all = 0;
	for (int i = 0; i < loops; i++)
		all += i ^ number << (i & 7);
	sum = all;
}

__attribute__((noinline)) void *serve(void *unused)
{
	for (int number = 0; now() < end; number++) {
		count_hit(number);
		answer(number);
	}
	return unused;
}

__attribute__((noinline)) void write_report(void)
{
	usleep(40000);
	for (int i = 0; i < 64; i++)
		sum += hits[i];
}

__attribute__((noinline)) void publish(void)
{
	pthread_mutex_lock(&lock);
	write_report();
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void *reporter(void *unused)
{
	while (now() < end) {
		publish();
		usleep(8000);
	}
	return unused;
}

int main(int count, char **arguments)
{
	(void)arguments;
	if (count > 1)
		loops = 500;
	end = now() + 0.6;
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i < 2 ? serve : reporter, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return hits[0] == 0;
}
