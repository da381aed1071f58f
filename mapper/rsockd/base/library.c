// SPDX-License-Identifier: BSD-2-Clause
/* library.c - see library.h. */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int rsk_library_load(const char *library, const struct rsk_library_row *rows, size_t n_rows,
		     void *table, char *error, size_t n)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		const char *why = dlerror();

		snprintf(error, n, "%s", why ? why : library);
		return -ENOENT;
	}
	for (size_t i = 0; i < n_rows; i++) {
		void *found = dlsym(handle, rows[i].name);

		if (!found) {
			snprintf(error, n, "%s has no %s", library, rows[i].name);
			return -ENOSYS;
		}
		memcpy((char *)table + rows[i].offset, &found, sizeof(found));
	}
	return 0;
}
