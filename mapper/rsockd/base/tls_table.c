// SPDX-License-Identifier: BSD-2-Clause
/* tls_table.c - see tls_table.h. */
#include "tls_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* It brings OpenSSL's libraries along; their functions are found through it. */
#define LIBRARY "libevent_openssl-2.1.so.7"

struct rsk_tls_table rsk_tls_lib;

static const struct {
	const char *name;
	size_t offset;
} rows[] = {
#define X(member, name, type, arguments) { #name, offsetof(struct rsk_tls_table, member) },
	RSK_TLS_FUNCTIONS(X)
#undef X
};

int rsk_tls_load(char *error, size_t n)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		const char *why = dlerror();

		snprintf(error, n, "%s", why ? why : LIBRARY " cannot be loaded");
		return -ENOENT;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *found = dlsym(library, rows[i].name);

		if (!found) {
			snprintf(error, n, LIBRARY " and its libraries have no %s", rows[i].name);
			return -ENOSYS;
		}
		memcpy((char *)&rsk_tls_lib + rows[i].offset, &found, sizeof(found));
	}
	return 0;
}
