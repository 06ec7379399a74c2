/* What differs by machine. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

/* What the clock counts, a second. */
extern uint64_t clock_rate(void);

/* The serial line: writes a character; waits for one. */
void put(char c);
int get(void);

/* For the body of a loop that waits for another processor. */
void relax(void);

/* Interrupts, the first processor's part. */
void machine_init(void);

/* Starts the second processor, which calls second(). Returns 0 if there is none. */
int start_second(void);
void second(void);

/* Switches the machine off. */
_Noreturn void power_off(void);

#endif
