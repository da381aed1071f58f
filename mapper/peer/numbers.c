// SPDX-License-Identifier: BSD-2-Clause
/* numbers.c - see numbers.h. */
#include "numbers.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rsock/sys.h>

#define LISTED 2048 /* bytes of entries that are read at once */

/* As the kernel writes it; libc's has the same form. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

int rsk_number_of(const char *text)
{
	int64_t n = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || n > INT32_MAX)
			return -1;
		n = n * 10 + (*text - '0');
	}
	return n <= INT32_MAX ? (int)n : -1;
}

int rsk_numbers_each(int dir, int (*each)(void *arg, int n, const char *name), void *arg)
{
	_Alignas(struct entry) uint8_t entries[LISTED];
	ssize_t got;

	while ((got = rsk_sys_getdents64(dir, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct entry *e = (const struct entry *)(void *)(entries + at);
			int n = rsk_number_of(e->name), rc;

			at += e->reclen;
			rc = n < 0 ? 0 : each(arg, n, e->name);
			if (rc)
				return rc;
		}
	}
	return (int)got;
}
