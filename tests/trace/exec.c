/* Replaces itself: by itself with other arguments, in a thread that isn't the first, and then by a program
 * without hooks. */
#include "hits.h"
#include <pthread.h>
TRUTH()
static char **arguments;
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static void become(const char *program, char *argument) {
    HIT();
    char *words[] = {arguments[0], argument, 0};
    leaf(1);
    truth_();
    execv(program, words);
    _exit(99);
}
NI static void *thread(void *p) {
    HIT();
    (void)p;
    become("/proc/self/exe", (char *)"second");
    return 0;
}
int main(int argc, char **argv) {
    arguments = argv;
    for (int i = 0; i < 100; i++)
        leaf(i);
    if (argc < 2)
        become("/proc/self/exe", (char *)"first");
    if (!strcmp(argv[1], "first")) {
        pthread_t t;
        pthread_create(&t, 0, thread, 0);
        pthread_join(t, 0);
        return 98;
    }
    printf("second\n");
    fflush(stdout);
    become("/bin/echo", (char *)"third");
    return 97;
}
