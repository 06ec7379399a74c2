/* Gives its privileges away, and gets them back by executing a program that has them: a copy of itself that sets the
 * user ID. */
#include "hits.h"
#include <fcntl.h>
#include <sys/stat.h>
TRUTH()
extern char **environ;
NI static int leaf(int n) {
    HIT();
    return n + 1;
}
NI static int copy(const char *self) {
    HIT();
    static char bytes[1 << 20];
    int from = open(self, O_RDONLY), to = open("privileged-copy", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    ssize_t size = read(from, bytes, sizeof bytes);
    if (write(to, bytes, size) != size || fchown(to, 0, 0) || fchmod(to, 04755))
        return -1;
    close(to);
    return open("privileged-copy", O_RDONLY);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        /* What runs here isn't traced, and isn't counted. */
        leaf(1);
        printf("%d %d\n", (int)getuid(), (int)geteuid());
        fflush(stdout);
        _exit(6);
    }
    int file = copy("/proc/self/exe");
    const char *truth = getenv("TRUTH");
    if (truth)
        close(open(truth, O_WRONLY | O_CREAT, 0600)), chmod(truth, 0666);
    if (file < 0 || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 2;
    leaf(2);
    char *words[] = {argv[0], (char *)"again", 0};
    truth_();
    fflush(stdout);
    fexecve(file, words, environ);
    return 3;
}
