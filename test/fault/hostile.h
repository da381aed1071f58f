/* What the two halves of the hostile peer share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

double now_s(void);
_Noreturn void die(const char *what);
uint64_t dice(uint64_t *state); /* xorshift; *state is not 0 */

/* One act of damage somewhere in a link's segment: mostly where something is looked at. */
void hostile_scribble(uint64_t *state, uint8_t *at, size_t len);

/*
 * A peer that spoils every eventfd that it has, its own and the victim's, each for ever: O_NONBLOCK off and full or
 * taken from, rung without end; it does not come back. @asleep: a socket on which a thread of it is to sleep meanwhile.
 */
void hostile_doorbells(uint64_t *state, int asleep);

/* Knocks at the door of process pid until then; an exit status. */
int hostile_control(int pid, double until, uint64_t seed);

/* The same with descriptors whose close() takes a minute, as user @uid, 0: as it is. */
int hostile_slow(int pid, double until, uint64_t seed, unsigned int uid);
