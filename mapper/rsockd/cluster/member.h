/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member.h - this host's entry among the members of the cluster: PREFIX/members/NODE, bound to a
 * lease that is kept alive, so that it disappears with the daemon. cluster.c owns it;
 * member_list.h reads the entries of all. One thread.
 *
 * The entry is written by a transaction that is executed only if the key is as this daemon has left
 * it, or does not exist: an entry of another daemon is never replaced.
 */
#ifndef RSK_MEMBER_H
#define RSK_MEMBER_H

#include <event2/event.h>

#include "etcd.h"
#include "member_self.h"

#define RSK_MEMBER_COUNTERS(X)                                                                     \
	X(grants, "leases that etcd has granted")                                                  \
	X(renewals, "times that the lease was kept alive")                                         \
	X(lapses, "leases that etcd did not know any more")                                        \
	X(writes, "times that this host's entry was written")                                      \
	X(conflicts, "times that another daemon held the entry of this host's name")

struct rsk_member_counters {
#define X(name, text) uint64_t name;
	RSK_MEMBER_COUNTERS(X)
#undef X
};

/* Called when the lease was revoked, or could not be in time. */
typedef void rsk_member_left(void *ctx);

struct rsk_member {
	struct event_base *base;
	struct rsk_etcd *etcd; /* borrowed, like the next one */
	const struct rsk_member_self *self;
	char key[RSK_DOCUMENT_KEY + 80];
	uint64_t wanted_ns; /* how long a lease is to last */
	/* At most one is under way; the timer is set only without one */
	struct rsk_etcd_call *call;
	struct event *timer;
	uint64_t begun_ns; /* when that call began */
	/* 0: there is no lease. Until when etcd keeps it if nothing is heard any more */
	uint64_t lease, valid_until_ns, renew_ns;
	/* Revision of the entry that this daemon has written; 0: none, or it is gone */
	uint64_t held;
	/* Texts of the entry, owned: as it is in etcd under this lease, NULL: it is not; and as the
	 * call under way writes it, NULL: it only looks */
	char *written, *writing;
	unsigned int renewals; /* since the entry was looked at */
	/* In a row; the first of the lease, the second of the entry, under a lease that lives */
	unsigned int failures, write_failures, conflicts;
	uint64_t conflict_ns; /* since when another one holds the entry; 0: none does */
	bool is_hurried, is_told, is_leaving;
	char why[512]; /* empty: nothing is wrong; printable ASCII */
	rsk_member_left *left;
	void *ctx;
	struct rsk_member_counters count;
};

/* Starts to register. Returns 0 or -ENOMEM; the caller calls rsk_member_close() in either case. */
int rsk_member_open(struct rsk_member *m, struct event_base *base, struct rsk_etcd *etcd,
		    const char *prefix, uint64_t lease_ns, const struct rsk_member_self *self);
void rsk_member_close(struct rsk_member *m);

/* What the entry says may have changed. May be called often. */
void rsk_member_changed(struct rsk_member *m);

/*
 * Revokes the lease, so that others need not wait for its end. True: @left is called, in some 200
 * ms at the latest. False: there is nothing to revoke, or etcd is not reached.
 */
bool rsk_member_leave(struct rsk_member *m, rsk_member_left *left, void *ctx);

/* Whether the entry is in etcd, as far as this host can know. */
bool rsk_member_is_registered(const struct rsk_member *m);

#endif
