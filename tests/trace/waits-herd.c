/* A herd: each job wakes 24 threads, of which one gets it. They leave the processor so often that a recorder gives up watching that. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int jobs, has_ended;

__attribute__((noinline)) int take_job(void)
{
	pthread_mutex_lock(&lock);
	while (!jobs && !has_ended)
		pthread_cond_wait(&changed, &lock);
	int is_mine = jobs > 0;
	jobs -= is_mine;
	pthread_mutex_unlock(&lock);
	return is_mine;
}

void *worker(void *unused)
{
	while (take_job())
		;
	return unused;
}

static void change(int job)
{
	pthread_mutex_lock(&lock);
	jobs += job;
	has_ended |= !job;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	pthread_t threads[24];
	for (int i = 0; i < 24; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < 600; i++) {
		change(1);
		usleep(200);
	}
	change(0);
	for (int i = 0; i < 24; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
