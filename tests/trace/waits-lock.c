// Two threads want a lock that one of them holds while it sleeps.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

__attribute__((noinline)) void slow(void)
{
	usleep(300000);
}

static void *holder(void *unused)
{
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&both);
	slow();
	pthread_mutex_unlock(&lock);
	return NULL;
}

__attribute__((noinline)) void want(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, holder, NULL);
	pthread_barrier_wait(&both);
	want();
	return pthread_join(thread, NULL);
}
