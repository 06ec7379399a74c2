/* Makes a child every so often. Each makes some calls, lives for at most so long, and ends.
 *
 * forks SECONDS EVERY LIFE MOST (every so many milliseconds, life in these, too; and as many children at most at a time) */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned count;

__attribute__((noinline)) void work(void) { count++; }

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 1;
    double end = now() + atof(argv[1]);
    unsigned every = 1000 * atoi(argv[2]), life = 1000 * atoi(argv[3]), most = atoi(argv[4]);
    for (unsigned living = 0; now() < end; rand()) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (unsigned i = 0; i < 100; i++)
                work();
            usleep(rand() % life);
            _exit(0);
        }
        if (++living > most) {
            wait(0);
            living--;
        }
        usleep(every);
    }
    while (wait(0) > 0)
        ;
    return 0;
}
