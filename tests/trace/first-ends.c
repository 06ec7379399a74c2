/* Its first thread ends, and another one goes on for a while. */
#include <pthread.h>
#include <unistd.h>

static void *go_on(void *none)
{
    sleep(20);
    return none;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, go_on, 0);
    pthread_exit(0);
}
