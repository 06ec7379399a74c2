/* Functions that are inlined, that leave others by longjmp, in threads and in a forked child. */
#include "hits.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
TRUTH()

#ifdef OWN
/* The program is told of its calls itself. */
static unsigned long told;
__attribute__((BARE)) void __cyg_profile_func_enter(void *function, void *site) { told++; }
__attribute__((BARE)) void __cyg_profile_func_exit(void *function, void *site) { told++; }
#endif

#define INLINE static inline __attribute__((always_inline))
/* After inlining, nobody tells of these. */
#ifdef AFTER
#define INLINED_HIT()
#else
#define INLINED_HIT() HIT()
#endif

INLINE int inlined(int n)
{
    INLINED_HIT();
    return n + 1;
}
INLINE int nested(int n)
{
    INLINED_HIT();
    if (n == 1000)
        kill(getpid(), SIGKILL);
    return inlined(n) + inlined(n + 1);
}
NI int outer(int n)
{
    HIT();
    return nested(n) * 2;
}
NI int recursive(int n)
{
    HIT();
    int result = n ? recursive(n - 1) + inlined(n) : 0;
    /* So no compiler makes a loop of it. */
    __asm__ volatile("" : "+r"(result));
    return result;
}
static jmp_buf place;
NI void jumps(int n)
{
    HIT();
    if (n)
        jumps(n - 1);
    else
        longjmp(place, 1);
    __asm__ volatile("" ::: "memory");
}
NI int catches(int n)
{
    HIT();
    if (!setjmp(place))
        jumps(n);
    return outer(n);
}
NI static void *thread(void *p)
{
    HIT();
    long sum = 0;
    for (int i = 0; i < 200; i++)
        sum += outer(i) + recursive(i % 10);
    return (void *)sum;
}
NI static int child(int n)
{
    HIT();
    return recursive(n) & 7;
}
int main(int count, char **arguments)
{
    HIT();
    if (count > 1)
        outer(1000);
    pthread_t all[4];
    long sum = 0;
    int status = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], 0, thread, 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(all[i], &result);
        sum += (long)result;
    }
    for (int i = 0; i < 20; i++)
        sum += catches(i);
    fflush(stdout);
    int process = fork();
    if (!process) {
        CHILD();
        LEAVE(child(9));
    }
    waitpid(process, &status, 0);
    printf("sum %ld %d\n", sum, WEXITSTATUS(status));
    return 3;
}
