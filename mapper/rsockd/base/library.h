/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * library.h - a library that is loaded only where it is used, as a table of its functions: a daemon
 * that does not use it does not map it. curl_table.c and tls_table.c use it.
 */
#ifndef RSK_LIBRARY_H
#define RSK_LIBRARY_H

#include <stddef.h>

/* A function's name, and where its address goes in the table. */
struct rsk_library_row {
	const char *name;
	size_t offset;
};

/*
 * Loads the library and fills in the table; the library stays loaded until the process ends.
 * Functions of the libraries that it brings along are found, too. Returns 0 or -errno, with a line
 * in @error. Blocks: it reads files.
 */
int rsk_library_load(const char *library, const struct rsk_library_row *rows, size_t n_rows,
		     void *table, char *error, size_t n);

#endif
