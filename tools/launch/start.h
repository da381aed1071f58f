/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.h - the steps before a program is executed with the library (rsock run, bench, check
 * --serve).
 */
#ifndef RSK_TOOLS_START_H
#define RSK_TOOLS_START_H

#include <limits.h>

/*
 * Finds the library and the program, which is searched in PATH as the shell does. Returns 0, or
 * an exit status after a message on standard error.
 */
int start_find(const char *name, char library[static PATH_MAX], char path[static PATH_MAX]);

/* The same; it also puts the library into this process's LD_PRELOAD. */
int start_prepare(const char *name, char library[static PATH_MAX], char path[static PATH_MAX]);

/*
 * Why the library will not work in this program, as the rest of a sentence: "is linked
 * statically: ...". NULL if no reason is known.
 */
const char *start_warning(const char *path);

/* Prints why a program could not be started; returns the exit status that a shell would give. */
int start_failed(const char *name, int err);

#endif /* RSK_TOOLS_START_H */
