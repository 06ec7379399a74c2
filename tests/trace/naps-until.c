// Sleeps a millisecond, again and again, until its standard input ends.
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
	struct pollfd input = {.fd = 0, .events = POLLIN};
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		usleep(1000);
	return 0;
}
