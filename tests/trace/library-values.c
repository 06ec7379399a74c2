/* Calls functions of the C library, and says with what; once when it's told to, or at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile long numbers[] = {0, 1, -7, 123456789012};
static const char *volatile texts[] = {"", "x", "longer than one word"};

__attribute__((noinline)) static void say(const char *function, const char *argument, long number, long result)
{
    printf("{\"function\":\"%s\",\"text\":\"%s\",\"number\":%ld,\"result\":%ld}\n", function, argument, number, result);
}

int main(int count, char **arguments)
{
    char line[16];
    if (count > 1) {
        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 1;
    }
    for (int i = 0; i < 4; i++)
        say("labs", "", numbers[i], labs(numbers[i]));
    for (int i = 0; i < 3; i++)
        say("strlen", texts[i], 0, (long)strlen(texts[i]));
    fflush(stdout);
    return 0;
}
