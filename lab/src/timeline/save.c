/* Saves orders, each in a file of its own, while a second thread writes a log: functions of a program, and what the kernel does for them. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORDERS = 40, SIZE = 16384 };

static char text[SIZE];

static void check(int well)
{
	if (!well) {
		perror("save");
		exit(1);
	}
}

__attribute__((noipa)) static void render(int order)
{
	for (int at = 0; at < SIZE; at++)
		text[at] = 'a' + (at * 7919 + order) % 26;
}

__attribute__((noipa)) static void write_all(int file)
{
	check(write(file, text, SIZE) == SIZE);
}

__attribute__((noipa)) static void flush(int file)
{
	check(fsync(file) == 0);
}

__attribute__((noipa)) static void save(int order)
{
	char name[64], new[64];
	snprintf(name, sizeof name, "order-%d", order);
	snprintf(new, sizeof new, "order-%d.new", order);
	int file = open(new, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	check(file >= 0);
	write_all(file);
	flush(file);
	close(file);
	check(rename(new, name) == 0);
}

__attribute__((noipa)) static void note(int log, int line)
{
	char text[64];
	int length = snprintf(text, sizeof text, "line %d\n", line);
	check(write(log, text, length) == length);
}

static void *keep_log(void *nothing)
{
	int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	check(log >= 0);
	for (int line = 0; line < ORDERS; line++) {
		note(log, line);
		usleep(1000);
	}
	close(log);
	return nothing;
}

int main(void)
{
	pthread_t logger;
	check(pthread_create(&logger, 0, keep_log, 0) == 0);
	for (int order = 0; order < ORDERS; order++) {
		render(order);
		save(order);
	}
	pthread_join(logger, 0);
	return 0;
}
