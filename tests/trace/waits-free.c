// Takes a lock that is always free, very often, and does a little in between.
#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;

__attribute__((noinline)) void work(void)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		sum += i;
		pthread_mutex_unlock(&lock);
	}
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(void)
{
	while (now() < 1)
		work();
	return 0;
}
