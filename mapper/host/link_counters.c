// SPDX-License-Identifier: BSD-2-Clause
/* link_counters.c - see link_counters.h. */
#include "link_counters.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Columns after the name, from 0. */
#define RECEIVED 0
#define SENT 8

static bool number(char **at, uint64_t *out)
{
	char *end;

	*at += strspn(*at, " ");
	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*out = strtoull(*at, &end, 10);
	if (errno || !strchr(" \n", *end))
		return false;
	*at = end;
	return true;
}

/* Parses "  eth0: 1296 ...". Ends the name in @line with 0. */
static const char *parse(char *line, struct rsk_counted *out)
{
	char *name = line + strspn(line, " "), *at = strchr(name, ':');
	uint64_t column = 0;

	if (!at || at == name)
		return NULL;
	*at++ = 0;
	for (int i = 0; i <= SENT; i++) {
		if (!number(&at, &column))
			return NULL;
		if (i == RECEIVED)
			out->received = column;
	}
	out->sent = column;
	out->known = true;
	return name;
}

int rsk_link_counters_read(FILE *f,
			   void (*each)(void *ctx, const char *link,
					const struct rsk_counted *octets),
			   void *ctx)
{
	char line[512];

	clearerr(f);
	if (fseek(f, 0, SEEK_SET) < 0)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		struct rsk_counted octets = { 0 };
		const char *link = parse(line, &octets);

		if (link)
			each(ctx, link, &octets);
	}
	return ferror(f) ? -EIO : 0;
}
