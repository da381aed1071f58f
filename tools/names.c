// SPDX-License-Identifier: BSD-2-Clause
/*
 * names.c - the addresses of streams that have made few calls yet: their sockets' numbers from /proc/PID/fd, what
 * those are connected to from /proc/PID/net/tcp and tcp6 (proc(5)), which are of the process's network namespace.
 */
#include "rsock.h"

#include "tuple.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A stream without a name. */
struct nameless {
	uint32_t pid;
	uint64_t inode;			 /* of its socket */
	struct rsk_stats_stream *record; /* borrowed: in the copy */
};

static int nameless_compare(const void *a, const void *b)
{
	const struct nameless *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->inode > y->inode) - (x->inode < y->inode);
}

static uint64_t inode_of(uint32_t pid, uint32_t fd)
{
	char path[48], target[40], *end;
	uint64_t inode;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = 0;
	if (strncmp(target, "socket:[", 8) != 0)
		return 0;
	inode = strtoull(target + 8, &end, 10);
	return *end == ']' ? inode : 0;
}

/* So many hexadecimal digits at @text, and no fewer. */
static bool parse_hex(const char *text, size_t digits, uint32_t *out)
{
	char copy[9], *end;

	if (strlen(text) < digits)
		return false;
	memcpy(copy, text, digits);
	copy[digits] = 0;
	*out = (uint32_t)strtoul(copy, &end, 16);
	return end == copy + digits;
}

/* "0100007F:1F90", IPv6 with 32 digits: each word as this machine reads it, the port as a number. */
static socklen_t parse_addr(const char *text, struct sockaddr_storage *out)
{
	size_t digits = strcspn(text, ":"), words = digits / 8;
	uint32_t word[4] = { 0 }, port;

	memset(out, 0, sizeof(*out));
	if ((digits != 8 && digits != 32) || !text[digits] ||
	    !parse_hex(text + digits + 1, 4, &port))
		return 0;
	for (size_t i = 0; i < words; i++)
		if (!parse_hex(text + 8 * i, 8, &word[i]))
			return 0;
	if (words == 1) {
		struct sockaddr_in in = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)port) };

		memcpy(&in.sin_addr, word, 4);
		memcpy(out, &in, sizeof(in));
		return sizeof(in);
	}
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };

	memcpy(&in6.sin6_addr, word, 16);
	memcpy(out, &in6, sizeof(in6));
	return sizeof(in6);
}

/* Columns of the file. */
enum {
	LOCAL = 1,
	REMOTE = 2,
	INODE = 9,
	COLUMNS
};

/* A line of the file, which is taken apart: is it one of these? All of one process. */
static void line_take(char *line, struct nameless *some, size_t n)
{
	struct nameless key = { .pid = some->pid }, *found;
	struct sockaddr_storage local, peer;
	struct rsk_tuple tuple;
	char *column[COLUMNS], *rest = line, *end;

	for (int i = 0; i < COLUMNS; i++) {
		column[i] = strtok_r(rest, " \n", &rest);
		if (!column[i])
			return;
	}
	key.inode = strtoull(column[INODE], &end, 10);
	if (*end)
		return;
	found = bsearch(&key, some, n, sizeof(*some), nameless_compare);
	if (!found || rsk_tuple_from_addrs(&local, parse_addr(column[LOCAL], &local), &peer,
					   parse_addr(column[REMOTE], &peer), &tuple) < 0)
		return;
	memcpy(found->record->local, tuple.local, 16);
	memcpy(found->record->peer, tuple.peer, 16);
	found->record->local_port = tuple.local_port;
	found->record->peer_port = tuple.peer_port;
	found->record->family = tuple.family;
}

static void process_name(struct nameless *some, size_t n)
{
	static const char *const tables[] = { "tcp", "tcp6" };
	char path[48], line[512];

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/net/%s", some->pid, tables[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		while (fgets(line, sizeof(line), file))
			line_take(line, some, n);
		fclose(file);
	}
}

void segments_name(struct segment *list)
{
	struct nameless *all = NULL, *more;
	size_t n = 0, end;

	for (struct segment *seg = list; seg; seg = seg->next)
		for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
			struct rsk_stats_stream *s = &seg->copy->stream[i];
			uint64_t inode;

			if (s->state != RSK_STATS_OPEN || s->local_port || !s->fd_plus_1)
				continue;
			inode = inode_of(s->pid, s->fd_plus_1 - 1);
			if (!inode)
				continue;
			if (n % 256 == 0) {
				more = realloc(all, (n + 256) * sizeof(*all));
				if (!more)
					break;
				all = more;
			}
			all[n++] = (struct nameless){ s->pid, inode, s };
		}
	if (n)
		qsort(all, n, sizeof(*all), nameless_compare);
	for (size_t from = 0; from < n; from = end) {
		for (end = from + 1; end < n && all[end].pid == all[from].pid; end++)
			;
		process_name(&all[from], end - from);
	}
	free(all);
}
