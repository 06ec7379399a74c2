/* A step behind the link of an RTOS: makes an object with the table of all hooks in an image. Its section and its bounds
 * have the names that the RTOS wants, and its entries ascend. Linked in, it is the table.
 *
 *   cc -o table table.c $(pkg-config --cflags --libs mcount)
 *   ld -T rtos.ld -o image objects...
 *   ./table image table.o && ld -T rtos.ld -o image objects... table.o
 */
#include <mcount/file.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	static const char *const settings[][2] = {
		{ "policy", "all" },
		{ "table-section", ".trace_sites" },
		{ "start-symbol", "trace_sites_start" },
		{ "end-symbol", "trace_sites_end" },
	};
	struct mcount_failure failure = { .text = "usage: table IMAGE OBJECT" };
	mcount_options *options = mcount_options_new();
	mcount_file *image = NULL;
	FILE *object = NULL;
	void *bytes = NULL;
	size_t size = 0, written = 0;

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		mcount_options_set(options, settings[i][0], settings[i][1], &failure);
	if (count == 3 && (image = mcount_file_open(arguments[1], options, &failure)) &&
	    mcount_file_late_object(image, &bytes, &size, &failure) == 1 && (object = fopen(arguments[2], "wb")))
		written = fwrite(bytes, 1, size, object);
	if (!object || fclose(object) || written != size)
		fprintf(stderr, "table: %s\n", object ? "cannot write" : failure.text);
	mcount_free(bytes, size);
	mcount_file_close(image);
	mcount_options_free(options);
	return !object || written != size;
}
