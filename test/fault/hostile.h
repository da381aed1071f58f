/* What the two halves of the hostile peer share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

double now_s(void);
void die(const char *what);
uint64_t dice(uint64_t *state); /* xorshift; *state is not 0 */

/* One act of damage somewhere in a link's segment: mostly where something is looked at. */
void hostile_scribble(uint64_t *state, uint8_t *at, size_t len);

/* Knocks at the door of process pid until then; an exit status. */
int hostile_control(int pid, double until, uint64_t seed);
