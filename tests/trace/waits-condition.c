// A thread makes something every 30 ms, and another one waits for it.
#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int made;

__attribute__((noinline)) void make(void)
{
	struct timespec time = { 0, 30000000 };
	nanosleep(&time, NULL);
	pthread_mutex_lock(&lock);
	made++;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void *maker(void *unused)
{
	for (int i = 0; i < 10; i++)
		make();
	return NULL;
}

__attribute__((noinline)) void take(void)
{
	pthread_mutex_lock(&lock);
	while (made == 0)
		pthread_cond_wait(&changed, &lock);
	made--;
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, maker, NULL);
	for (int i = 0; i < 10; i++)
		take();
	return pthread_join(thread, NULL);
}
