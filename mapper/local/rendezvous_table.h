/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous_table.h - the rendezvous table: it pairs processes of one host that cannot find each
 * other. It contains the ends of connections whose process looks for the other end, and the pairs
 * of processes that have a link already. Used by rsockd, which proves who holds what before it
 * calls.
 *
 * Every operation takes constant time; only the end of a process and a lost link walk all links. No
 * clock, no sockets. One thread.
 */
#ifndef RSK_RENDEZVOUS_TABLE_H
#define RSK_RENDEZVOUS_TABLE_H

#include <rsock/tuple.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum of waiting ends; the oldest is dropped */
#define RSK_RENDEZVOUS_TABLE_MOST 65536u
/* Of one process: its own oldest is dropped */
#define RSK_RENDEZVOUS_TABLE_MOST_OF_ONE 4096u
#define RSK_RENDEZVOUS_TABLE_WAIT_NS 60000000000u /* longer than a process looks for its peer */

struct rsk_rendezvous_table_end {
	struct rsk_tuple tuple; /* as its process sees it */
	uint64_t cookie;
	uint32_t process; /* the caller's number of it, not 0 */
	uint32_t uid;
	int32_t fd;
	bool connecting;
	/* Is not paired here: the port mapper's protocol looks for its peer */
	bool no_shm;
	/* The other end was found by the first segment, not by the tuple: syn_ends.h */
	bool by_syn;
};

struct rsk_rendezvous_table_seat;
struct rsk_rendezvous_table_link;

/* All zero initially. Owns what it points to. */
struct rsk_rendezvous_table {
	struct rsk_rendezvous_table_seat *seats; /* by tuple */
	struct rsk_rendezvous_table_seat *oldest;
	struct rsk_rendezvous_table_of *of; /* by process */
	struct rsk_rendezvous_table_link *links;
	uint64_t met, expired, pushed_out;
};

void rsk_rendezvous_table_fini(struct rsk_rendezvous_table *m);

/*
 * @end looks for its peer. Returns 1: *other is the mirrored end, of another process; neither waits
 * any more; 0: it waits (the newest entry of a tuple counts); -ENOMEM.
 */
int rsk_rendezvous_table_lookup(struct rsk_rendezvous_table *m,
				const struct rsk_rendezvous_table_end *end, uint64_t now_ns,
				struct rsk_rendezvous_table_end *other);

/* Drops ends that have waited too long. rsk_rendezvous_table_lookup() does it, too. */
void rsk_rendezvous_table_expire(struct rsk_rendezvous_table *m, uint64_t now_ns);

/* Returns the waiting end of that tuple, or NULL. Valid until the next call. */
const struct rsk_rendezvous_table_end *
rsk_rendezvous_table_waits(const struct rsk_rendezvous_table *m, const struct rsk_tuple *tuple);

/* Calls fn() for each waiting end of the process. fn() must not change the table. */
void rsk_rendezvous_table_each(const struct rsk_rendezvous_table *m, uint32_t process,
			       void (*fn)(void *ctx, const struct rsk_rendezvous_table_end *end),
			       void *ctx);

/* The link of two processes, in either order; 0: none. Set returns 0 or -ENOMEM. */
uint64_t rsk_rendezvous_table_link(const struct rsk_rendezvous_table *m, uint32_t a, uint32_t b);
int rsk_rendezvous_table_link_set(struct rsk_rendezvous_table *m, uint32_t a, uint32_t b,
				  uint64_t link);
/* @process reports that it has no such link: the pair will get another one. */
void rsk_rendezvous_table_link_lost(struct rsk_rendezvous_table *m, uint32_t process,
				    uint64_t link);

/* The process has ended: drops everything of it. */
void rsk_rendezvous_table_gone(struct rsk_rendezvous_table *m, uint32_t process);

/* Returns the number of waiting ends. */
size_t rsk_rendezvous_table_count(const struct rsk_rendezvous_table *m);
bool rsk_rendezvous_table_validate(const struct rsk_rendezvous_table *m);

#endif
