/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h - what comes before the exec of a program that is to have the library. */
#ifndef RSK_TOOLS_START_H
#define RSK_TOOLS_START_H

#include <limits.h>

/* Finds library and program; PATH is searched as the shell does. Returns 0, or an exit status: told already. */
int start_find(const char *name, char library[static PATH_MAX], char path[static PATH_MAX]);

/* The same, and puts the library into this process's LD_PRELOAD. */
int start_prepare(const char *name, char library[static PATH_MAX], char path[static PATH_MAX]);

/* Why the loader will not preload anything into it, as "is linked statically, ..."; NULL: nothing is known to. */
const char *start_warning(const char *path);

/* Tells why a program could not be started; returns the exit status that a shell would give. */
int start_failed(const char *name, int err);

#endif /* RSK_TOOLS_START_H */
