// Waits in the library function that a line names, and says what it returned. Each is called through a word that the dynamic
// linker fills in.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#ifdef ADDRESS
void *volatile addresses[4];

__attribute__((noinline)) void take_addresses(void)
{
	addresses[0] = (void *)usleep;
	addresses[1] = (void *)nanosleep;
	addresses[2] = (void *)poll;
	addresses[3] = (void *)select;
}
#endif

__attribute__((noinline)) int wait_in(const char *function)
{
	struct timespec time = { 0, 2000000 };
	struct timeval other = { 0, 2000 };
	if (strcmp(function, "usleep") == 0)
		return usleep(2000);
	if (strcmp(function, "nanosleep") == 0)
		return nanosleep(&time, NULL);
	if (strcmp(function, "poll") == 0)
		return poll(NULL, 0, 2);
	if (strcmp(function, "select") == 0)
		return select(0, NULL, NULL, NULL, &other);
	return -1;
}

int main(void)
{
	char line[99];
#ifdef ADDRESS
	take_addresses();
#endif
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		printf("%s %d\n", line, wait_in(line));
		fflush(stdout);
	}
	return 0;
}
