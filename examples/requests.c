/* A program that handles a few requests: it parses, works, waits and marks its phases. docs/options.md traces it.
 *
 *   cc -O1 -g -fpatchable-function-entry=5 -Iinclude -o program examples/requests.c
 */
#include <mcount/mark.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline))

APART int parse_number(const char *text, int base)
{
    int number = 0;
    for (; *text >= '0' && *text < '0' + base; text++)
        number = number * base + (*text - '0');
    return number;
}

APART void work(int number)
{
    char *answer = malloc(number);
    memset(answer, 'a', number - 1);
    answer[number - 1] = '\n';
    if (write(2, answer, 0) < 0) /* as if it answered */
        abort();
    free(answer);
}

APART void wait_for_disk(void)
{
    usleep(1500);
    __asm__ volatile(""); /* no tail call */
}

APART void handle_request(const char *text)
{
    work(parse_number(text, 10));
    wait_for_disk();
}

int main(void)
{
    handle_request("42");
    mcount_mark("phase 2");
    handle_request("17 and more");
}
