// SPDX-License-Identifier: BSD-2-Clause
/* streams.c - see streams.h. */
#include "streams.h"

#include "tuple.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int streams_add(struct streams *all, const struct rsk_tuple *tuple)
{
	struct rsk_tuple *more;

	if ((all->count & (all->count - 1)) == 0) {
		more = realloc(all->at, (all->count ? 2 * all->count : 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		all->at = more;
	}
	all->at[all->count] = *tuple;
	all->at[all->count++].netns = 0;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return tuple_compare(a, b);
}

void streams_settle(struct streams *all)
{
	size_t kept = 0;

	if (all->count)
		qsort(all->at, all->count, sizeof(*all->at), compare);
	for (size_t i = 0; i < all->count; i++)
		if (!kept || tuple_compare(&all->at[kept - 1], &all->at[i]) != 0)
			all->at[kept++] = all->at[i];
	all->count = kept;
}

void streams_free(struct streams *all)
{
	free(all->at);
	memset(all, 0, sizeof(*all));
}

int streams_of_process(const struct host *host, pid_t pid, struct streams *out)
{
	int err = 0;

	for (size_t i = 0; !err && i < host->holders.count; i++) {
		const struct holder *h = &host->holders.by_inode[i];
		const struct sock_row *row =
			h->pid == pid ? nettab_socket(&host->sockets, h->inode) : NULL;

		if (row && socket_is_connected(row))
			err = streams_add(out, &row->tuple);
	}
	for (size_t i = 0; !err && i < host->records.count; i++) {
		struct rsk_tuple t = record_tuple(host->records.at[i].stream);

		if ((pid_t)host->records.at[i].stream->pid == pid && t.peer_port)
			err = streams_add(out, &t);
	}
	return err;
}

int streams_of_descriptor(const struct host *host, pid_t pid, int fd, struct streams *out,
			  uint64_t *inode, const struct sock_row **row)
{
	*inode = socket_inode(pid, fd);
	*row = *inode ? nettab_socket(&host->sockets, *inode) : NULL;
	return *row && socket_is_connected(*row) ? streams_add(out, &(*row)->tuple) : 0;
}

int streams_of_address(const struct host *host, const struct addresses *where, uint16_t port,
		       struct streams *out)
{
	for (size_t i = 0; i < host->sockets.count; i++) {
		const struct sock_row *row = &host->sockets.row[i];
		const struct rsk_tuple *t = &row->tuple;
		struct rsk_tuple mirror = rsk_tuple_mirror(t);
		int err = 0;

		if (!socket_is_connected(row))
			continue;
		if ((t->local_port == port && addresses_have(where, t->family, t->local)) ||
		    (t->peer_port == port && addresses_have(where, t->family, t->peer) &&
		     !nettab_find(&host->sockets, &mirror)))
			err = streams_add(out, t);
		if (err)
			return err;
	}
	return 0;
}
