/* SPDX-License-Identifier: BSD-2-Clause */
/* library.h - finds librsock.so, and edits LD_PRELOAD so that a program loads it or does not. */
#ifndef RSK_TOOLS_LIBRARY_H
#define RSK_TOOLS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define LIBRARY_FILE "librsock.so"

/*
 * The library's path: the one that RSOCK_LIBRARY names; else the one next to this tool (in a
 * build tree or an installed prefix); else the configured installation path. Returns 0; -ENOENT:
 * none of these can be read, and out is the last one tried.
 */
int library_find(char out[static PATH_MAX]);

/*
 * Whether @preload, a value of LD_PRELOAD, names a librsock.so. *at gets the position of that
 * name and *len its length; both may be NULL.
 */
bool preload_names_library(const char *preload, const char **at, size_t *len);

/*
 * Appends the library to this process's LD_PRELOAD, so that a library which must be first (a
 * sanitizer's runtime) stays first. Returns 0; -EINVAL: the path contains a blank or a colon, which
 * separate the names in LD_PRELOAD; -ENOMEM.
 */
int preload_set(const char *library);

/* Removes every librsock.so from this process's LD_PRELOAD and keeps the rest. 0 or -ENOMEM. */
int preload_unset(void);

#endif /* RSK_TOOLS_LIBRARY_H */
