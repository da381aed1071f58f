/* SPDX-License-Identifier: BSD-2-Clause */
/* library.h - where librsock.so is, and how a program is made to load it. */
#ifndef RSK_TOOLS_LIBRARY_H
#define RSK_TOOLS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define LIBRARY_FILE "librsock.so"

/*
 * The library's path, absolute: what RSOCK_LIBRARY names, else the one next to this tool (a build tree, an installed
 * prefix), else where it was to be installed. Returns 0; -ENOENT: none of these can be read, out is the last tried.
 */
int library_find(char out[static PATH_MAX]);

/* Does this LD_PRELOAD name a librsock.so? Where it stands is put into *at, its length into *len (both may be NULL). */
bool preload_names_library(const char *preload, const char **at, size_t *len);

/*
 * LD_PRELOAD of this process, with the library behind what is there already: whatever must be first (a sanitizer's
 * runtime) stays so. Returns 0; -EINVAL: the loader could not read this path (blanks and colons part names); -ENOMEM.
 */
int preload_set(const char *library);

/* Takes every librsock.so out of this process's LD_PRELOAD, and leaves the rest. 0 or -ENOMEM. */
int preload_unset(void);

#endif /* RSK_TOOLS_LIBRARY_H */
