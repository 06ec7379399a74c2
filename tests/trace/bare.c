/* Has no hooks; leaves a mark when it runs. */
#include <fcntl.h>
int main(int argc, char **argv) {
    return argc > 1 && open(argv[1], O_CREAT | O_WRONLY, 0600) < 0;
}
