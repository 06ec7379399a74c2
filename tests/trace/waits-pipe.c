// A program that reads what a slow one writes.
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void produce(int to)
{
	for (int i = 0; i < 10; i++) {
		usleep(20000);
		if (write(to, "x", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

__attribute__((noinline)) int consume(int from)
{
	char byte;
	int count = 0;
	while (read(from, &byte, 1) == 1)
		count++;
	return count;
}

int main(void)
{
	int ends[2], status;
	if (pipe(ends) != 0)
		return 1;
	if (fork() == 0)
		produce(ends[1]);
	close(ends[1]);
	int count = consume(ends[0]);
	wait(&status);
	return count != 10;
}
