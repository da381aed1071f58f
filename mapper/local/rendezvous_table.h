/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous_table.h - where processes of one host are brought together that cannot find each other: ends of connections whose
 * process seeks the other end, and which pairs of processes have a link already. Who holds what is proven by the
 * caller before it comes here. Every operation takes the same time however many wait; only the end of a process, and a
 * lost link, look through all links. No clock, no sockets. One thread.
 */
#ifndef RSK_RENDEZVOUS_TABLE_H
#define RSK_RENDEZVOUS_TABLE_H

#include <rsock/tuple.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_RENDEZVOUS_TABLE_MOST 65536u	  /* ends that wait at once; the oldest goes */
#define RSK_RENDEZVOUS_TABLE_MOST_OF_ONE 4096u	  /* of one process: its own oldest goes */
#define RSK_RENDEZVOUS_TABLE_WAIT_NS 60000000000u /* longer than a process looks for its peer */

struct rsk_rendezvous_table_end {
	struct rsk_tuple tuple; /* as its process sees it */
	uint64_t cookie;
	uint32_t process; /* the caller's number of it, not 0 */
	uint32_t uid;
	int32_t fd;
	bool connecting;
	bool no_shm; /* does not meet: it is sought by the port mapper's protocol */
};

struct rsk_rendezvous_table_seat;
struct rsk_rendezvous_table_link;

/* All zero is an empty one. Owns what it points to. */
struct rsk_rendezvous_table {
	struct rsk_rendezvous_table_seat *seats; /* by tuple */
	struct rsk_rendezvous_table_seat *oldest;
	struct rsk_rendezvous_table_of *of; /* by process */
	struct rsk_rendezvous_table_link *links;
	uint64_t met, expired, pushed_out;
};

void rsk_rendezvous_table_fini(struct rsk_rendezvous_table *m);

/*
 * @end seeks. 1: *other is the mirrored end, of another process, which waits no more, nor does this one; 0: it waits
 * (the newest word of a tuple counts); -ENOMEM.
 */
int rsk_rendezvous_table_lookup(struct rsk_rendezvous_table *m,
				const struct rsk_rendezvous_table_end *end, uint64_t now_ns,
				struct rsk_rendezvous_table_end *other);

/* Those that waited too long go. A seek does it, too. */
void rsk_rendezvous_table_expire(struct rsk_rendezvous_table *m, uint64_t now_ns);

/* The end of that tuple, if it waits; NULL. Good until the next call. */
const struct rsk_rendezvous_table_end *
rsk_rendezvous_table_waits(const struct rsk_rendezvous_table *m, const struct rsk_tuple *tuple);

/* Each end of the process that waits. fn() changes nothing here. */
void rsk_rendezvous_table_each(const struct rsk_rendezvous_table *m, uint32_t process,
			       void (*fn)(void *ctx, const struct rsk_rendezvous_table_end *end),
			       void *ctx);

/* The link that two processes have, in either order; 0: none. Set: 0 or -ENOMEM. */
uint64_t rsk_rendezvous_table_link(const struct rsk_rendezvous_table *m, uint32_t a, uint32_t b);
int rsk_rendezvous_table_link_set(struct rsk_rendezvous_table *m, uint32_t a, uint32_t b,
				  uint64_t link);
/* @process says that it has no such link: the pair gets another. */
void rsk_rendezvous_table_link_lost(struct rsk_rendezvous_table *m, uint32_t process,
				    uint64_t link);

/* The process is gone, with all that it waited for. */
void rsk_rendezvous_table_gone(struct rsk_rendezvous_table *m, uint32_t process);

/* How many ends wait. */
size_t rsk_rendezvous_table_count(const struct rsk_rendezvous_table *m);
bool rsk_rendezvous_table_validate(const struct rsk_rendezvous_table *m);

#endif
