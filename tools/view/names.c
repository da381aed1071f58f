// SPDX-License-Identifier: BSD-2-Clause
/*
 * names.c - finds the addresses of streams whose records have none yet: the socket's inode from
 * /proc/PID/fd, and its addresses from /proc/PID/net/tcp. segments_scan() calls it.
 */
#include "scan.h"

#include "holders.h"
#include "nettab.h"

#include <stdlib.h>
#include <string.h>

/* A stream without addresses. */
struct nameless {
	uint32_t pid;
	uint64_t inode;			 /* of its socket */
	struct rsk_stats_stream *record; /* borrowed: in the copy */
};

static int nameless_compare(const void *a, const void *b)
{
	const struct nameless *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Names @n streams, all of one process. */
static void process_name(const struct nameless *some, size_t n)
{
	struct nettab tab;

	if (nettab_read((pid_t)some->pid, &tab))
		return;
	for (size_t i = 0; i < n; i++) {
		const struct sock_row *row = nettab_socket(&tab, some[i].inode);
		struct rsk_stats_stream *rec = some[i].record;

		if (!row)
			continue;
		memcpy(rec->local, row->tuple.local, 16);
		memcpy(rec->peer, row->tuple.peer, 16);
		rec->local_port = row->tuple.local_port;
		rec->peer_port = row->tuple.peer_port;
		rec->family = row->tuple.family;
	}
	nettab_free(&tab);
}

void segments_name(struct segment *list)
{
	struct nameless *all = NULL, *more;
	size_t n = 0, end;

	for (struct segment *seg = list; seg; seg = seg->next)
		for (unsigned int i = 0; i < seg->copy->header.high_water; i++) {
			struct rsk_stats_stream *s = &seg->copy->stream[i];
			uint64_t inode;

			if (s->state != RSK_STATS_OPEN || s->local_port || !s->fd_plus_1)
				continue;
			inode = socket_inode((pid_t)s->pid, (int)(s->fd_plus_1 - 1));
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
