// Two processes that hand a byte to each other, so often that it costs too much to know when they're off the processor.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int there[2], back[2];

__attribute__((noinline)) static int ping(char byte)
{
	char answer = 0;

	if (write(there[1], &byte, 1) != 1 || read(back[0], &answer, 1) != 1)
		exit(2);
	return answer == byte;
}

int main(void)
{
	char byte;
	int status, answers = 0;

	if (pipe(there) || pipe(back))
		return 3;
	if (!fork()) {
		close(there[1]);
		close(back[0]);
		while (read(there[0], &byte, 1) == 1)
			if (write(back[1], &byte, 1) != 1)
				return 4;
		return 0;
	}
	close(there[0]);
	close(back[1]);
	for (int i = 0; i < 60000; i++)
		answers += ping((char)i);
	close(there[1]);
	return wait(&status) < 0 || status || answers != 60000;
}
