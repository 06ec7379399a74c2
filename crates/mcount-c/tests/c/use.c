/* Prints what the library finds in the object that is named, asks it in all ways, and in four threads at once. */
#include <mcount/file.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const char *text)
{
	return text ? text : "-";
}

static void print(const mcount_sites *sites)
{
	for (size_t i = 0; i < mcount_sites_count(sites); i++) {
		const struct mcount_site *s = mcount_sites_at(sites, i);
		printf("%u %s %llu %llu %s %lld %s %llu %u %u\n", s->section_index, text(s->section),
		       (unsigned long long)s->offset, (unsigned long long)s->address, text(s->symbol),
		       (long long)s->symbol_offset, text(s->hook), (unsigned long long)s->size, s->kind, s->flags);
	}
	assert(!mcount_sites_at(sites, mcount_sites_count(sites)));
}

static void *ask(void *file)
{
	for (int i = 0; i < 20; i++) {
		mcount_sites *sites = mcount_file_sites(file, NULL);
		assert(sites && mcount_sites_count(sites) > 0);
		mcount_sites_free(sites);
	}
	return NULL;
}

static void fails(void)
{
	struct mcount_failure failure;
	unsigned char half[70] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };
	mcount_options *options = mcount_options_new();

	memset(&failure, 0x55, sizeof failure);
	assert(!mcount_file_from_memory("no ELF", 6, NULL, &failure));
	printf("%d %d %d %s\n", failure.code, failure.has_section, failure.has_offset, failure.text);
	half[40] = 0xff;
	half[58] = 64;
	half[60] = 5;
	assert(!mcount_file_from_memory(half, sizeof half, NULL, &failure));
	printf("%d %d %llu %s\n", failure.code, failure.has_offset, (unsigned long long)failure.offset, failure.text);
	assert(!mcount_file_open("/does/not/exist", NULL, &failure));
	printf("%d %s\n", failure.code, failure.text);
	assert(mcount_options_set(options, "colour", "red", &failure) == -1);
	printf("%d %s\n", failure.code, failure.text);
	assert(mcount_options_set(options, "nops", "yes", &failure) == -1);
	assert(mcount_options_set(options, "section", "[", &failure) == -1);
	assert(mcount_options_set(options, NULL, "1", &failure) == -1);
	assert(mcount_options_set(NULL, "nops", "1", NULL) == -1);
	assert(!mcount_file_open(NULL, NULL, NULL));
	assert(!mcount_file_from_memory(NULL, 5, NULL, NULL));
	assert(!mcount_file_sites(NULL, &failure) && failure.code == MCOUNT_FAILED_ARGUMENT);
	assert(mcount_file_record(NULL, NULL, NULL, NULL) == -1);
	assert(mcount_record_in_place("/does/not/exist", options, &failure) == -1);
	assert(failure.code == MCOUNT_FAILED_SYSTEM);
	mcount_options_free(options);
	mcount_options_free(NULL);
	mcount_file_close(NULL);
	mcount_sites_free(NULL);
	mcount_findings_free(NULL);
	mcount_free(NULL, 0);
}

int main(int count, char **arguments)
{
	struct mcount_failure failure;
	pthread_t threads[4];
	mcount_file *file, *recorded;
	mcount_sites *sites;
	mcount_findings *findings;
	void *bytes, *none;
	size_t size;

	assert(count == 2 && mcount_file_abi() == MCOUNT_FILE_ABI);
	fails();
	file = mcount_file_open(arguments[1], NULL, &failure);
	assert(file);
	printf("%s %d %d %d\n", mcount_file_machine(file), mcount_file_bits(file), mcount_file_is_big_endian(file),
	       mcount_file_is_image(file));
	sites = mcount_file_sites(file, &failure);
	print(sites);
	mcount_sites_free(sites);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, ask, file);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);

	findings = mcount_file_check(file, &failure);
	for (size_t i = 0; i < mcount_findings_count(findings); i++) {
		const struct mcount_finding *f = mcount_findings_at(findings, i);
		printf("%s %s %llu %s %u %d\n", f->rule, text(f->section), (unsigned long long)f->offset,
		       text(f->symbol), f->flags, f->is_error);
	}
	mcount_findings_free(findings);

	assert(mcount_file_record(file, &bytes, &size, &failure) == 1);
	recorded = mcount_file_from_memory(bytes, size, NULL, &failure);
	assert(recorded && mcount_file_record(recorded, &none, &(size_t){ 1 }, &failure) == 0 && !none);
	assert(mcount_record_in_place(arguments[1], NULL, &failure) == 1);
	assert(mcount_record_in_place(arguments[1], NULL, &failure) == 0);
	mcount_file_close(file);
	file = mcount_file_open(arguments[1], NULL, &failure);
	sites = mcount_file_table(file, &failure);
	print(sites);
	mcount_sites_free(sites);
	sites = mcount_file_table(recorded, &failure);
	print(sites);
	mcount_sites_free(sites);
	assert(mcount_file_late_object(file, &none, &size, &failure) == -1);
	assert(failure.code == MCOUNT_FAILED_WRONG_TYPE);
	mcount_free(bytes, size);
	mcount_file_close(recorded);
	mcount_file_close(file);
	return 0;
}
