// SPDX-License-Identifier: BSD-2-Clause
/* tls_table.c - see tls_table.h. */
#include "tls_table.h"

#include "library.h"

/* It brings OpenSSL's libraries along. */
#define LIBRARY "libevent_openssl-2.1.so.7"

struct rsk_tls_table rsk_tls_lib;

static const struct rsk_library_row rows[] = {
#define X(member, name, type, arguments) { #name, offsetof(struct rsk_tls_table, member) },
	RSK_TLS_FUNCTIONS(X)
#undef X
};

int rsk_tls_load(char *error, size_t n)
{
	return rsk_library_load(LIBRARY, rows, sizeof(rows) / sizeof(rows[0]), &rsk_tls_lib, error,
				n);
}
