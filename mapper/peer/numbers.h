/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * numbers.h - the entries of a directory of /proc whose names are numbers: processes, descriptors.
 * holders.c and the engine's files about descriptors call it.
 */
#ifndef RSK_MAPPER_NUMBERS_H
#define RSK_MAPPER_NUMBERS_H

/*
 * rsk_numbers_each - calls @each with @arg for each such entry of the open directory @dir: its
 * number @n, and its name. Ends with the first result that is not 0, and returns that; 0: all were
 * seen; or -errno of getdents64(2).
 *
 * Reads from where @dir is. Signal-safe.
 */
int rsk_numbers_each(int dir, int (*each)(void *arg, int n, const char *name), void *arg);

/* The number that @text is, 0 to INT32_MAX; -1: it is none. */
int rsk_number_of(const char *text);

#endif /* RSK_MAPPER_NUMBERS_H */
