/* Function tracing for a system of your own: what the crate `hooks` gives, and what it needs. */
#ifndef HOOKS_H
#define HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function was entered, or left. */
struct hooks_event {
    uint64_t hook;   /* the address of its hook, see hooks_name() */
    uint64_t caller; /* where it was called; 0: it was left */
    uint64_t time;   /* hooks_clock() */
    uint64_t took;   /* if it was left: for how long it was entered */
    uint64_t depth;  /* how many traced calls are around it */
};

/* Makes all hooks idle. Call it before other processors run. Returns how many there are. */
int hooks_idle(void);

/* Arms the functions that `glob` matches, or makes them idle, while other processors run. Returns how many match, or a
 * negative number: some hooks couldn't be written. One processor at a time may call it. */
int hooks_change(const char *glob, bool armed);

/* The next event of a processor. Returns false if there's none. */
bool hooks_next(size_t processor, struct hooks_event *event);

/* How many events of a processor were lost, since this was last called, because nobody read the others. */
size_t hooks_lost(size_t processor);

/* How many calls a processor has seen, with those that were lost. */
size_t hooks_seen(size_t processor);

/* The name of the function that has this hook, or NULL. */
const char *hooks_name(uint64_t hook);

/* The system provides these four. None of them may have a hook. */

/* Writes code: instructions, each by one store on AArch64, by halfwords on RISC-V. Returns 0, or a negative number. */
int hooks_write(uint64_t address, const void *bytes, size_t length);

/* Returns when no processor executes any more what was there before the last hooks_write()s: 0, or a negative number. */
int hooks_synchronize(void);

/* The number of this processor, from 0 on. */
size_t hooks_processor(void);

/* The time, in units that the system chooses. */
uint64_t hooks_clock(void);

#endif
