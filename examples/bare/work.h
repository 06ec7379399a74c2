/* What is traced, and how often each function says it was called. */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>

#define WORK(each) each(mix) each(tree) each(is_less) each(sort) each(finish) each(sum) each(thrice) each(work)
#define WORK_FUNCTIONS 8

extern const char *const work_names[WORK_FUNCTIONS];
extern volatile uint64_t work_counts[2][WORK_FUNCTIONS];

/* One round, on processor `which`. */
uint32_t work(unsigned which, uint32_t seed);

#endif
