// The other one, with the program.
#include <stdio.h>
#include <unistd.h>
static volatile int number = 2;
__attribute__((noinline)) static int same(void) { return number; }
__attribute__((noinline)) int value(void) { return 0; }
int of_a(void);
int main(void) {
    char line[100];
    alarm(200);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%d %d %d\n", of_a(), same(), value());
        fflush(stdout);
    }
    return 7;
}
