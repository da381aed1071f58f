/* hostile.h - functions of bin/fault_hostile (hostile.c) that its files share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

double now_s(void);
_Noreturn void die(const char *what);

/* Damages one place in a link's segment, mostly one that the other end reads often. */
void hostile_scribble(uint64_t *state, uint8_t *at, size_t len);

/*
 * Spoils every eventfd that the process has, its own and the victim's: clears O_NONBLOCK, fills
 * them or empties them, and rings without end; does not return. @asleep: a socket on which a thread
 * sleeps meanwhile.
 */
void hostile_doorbells(uint64_t *state, int asleep);

/*
 * Attacks the listener of process pid until @until (seconds of CLOCK_MONOTONIC); returns an exit
 * status.
 */
int hostile_control(int pid, double until, uint64_t seed);

/* The same with descriptors whose close() takes a minute, as user @uid; 0: as the present user. */
int hostile_slow(int pid, double until, uint64_t seed, unsigned int uid);
