// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_user.c - the users of the processes at the local socket: how many processes each may have,
 * and the share of this thread's time that their messages may take up, so that no user keeps others
 * out. local.c calls this; see local_parts.h.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rsock/clock.h>

#include "clock.h"
#include "fdmsg.h"
#include "helper.h"
#include "local_parts.h"
#include "user.h"

#define RESERVE 16 /* one place in so many is reserved for root and the daemon's own user */
/*
 * One user's messages may take up one part in SHARE of this thread's time, and SHARE_MOST_NS of it
 * at once.
 */
#define SHARE 4
#define SHARE_MOST_NS 2000000
/*
 * Limit of a user's messages with descriptors that are not statistics: each of them may block a
 * helper process for as long as the sender likes. They are counted until no helper runs any more.
 */
#define FOREIGN_MOST 8

static bool has_reserve(uint32_t uid)
{
	return rsk_user_same(uid, 0) || rsk_user_same(uid, geteuid());
}

bool rsk_local_user_room(struct rsk_local *l, uint32_t uid, struct rsk_local_user **user)
{
	struct rsk_local_user *u;

	HASH_FIND(hh, l->users, &uid, sizeof(uid), u);
	*user = u;
	if (HASH_COUNT(l->processes) >= (has_reserve(uid) ? l->max : l->max - l->max / RESERVE) ||
	    (u && (u->n >= l->max / 2 || u->foreign >= FOREIGN_MOST)))
		return false;
	if (u)
		return true;
	u = calloc(1, sizeof(*u));
	if (!u)
		return false;
	u->uid = uid;
	u->at_ns = rsk_clock_ns();
	u->left_ns = SHARE_MOST_NS;
	HASH_ADD(hh, l->users, uid, sizeof(uid), u);
	*user = u;
	return true;
}

bool rsk_local_user_has_share(struct rsk_local_user *u, uint64_t now_ns)
{
	uint64_t earned = (now_ns - u->at_ns) / SHARE;
	int64_t missing = SHARE_MOST_NS - u->left_ns;

	u->at_ns += earned * SHARE;
	u->left_ns += earned < (uint64_t)missing ? (int64_t)earned : missing;
	return u->left_ns > 0;
}

uint64_t rsk_local_worked_ns(void)
{
	return rsk_time_ns(CLOCK_THREAD_CPUTIME_ID) + rsk_fdmsg_vetting_ns();
}

uint64_t rsk_local_user_charge(struct rsk_local_user *u, uint64_t began_ns)
{
	uint64_t now = rsk_local_worked_ns();

	u->left_ns -= (int64_t)(now - began_ns);
	return now;
}

void rsk_local_users_forgive(struct rsk_local *l)
{
	size_t foreign = 0;
	struct rsk_local_user *u;

	for (u = l->users; u; u = u->hh.next)
		foreign += u->foreign;
	if (!foreign || !rsk_helper_few(1))
		return;
	for (u = l->users; u; u = u->hh.next)
		u->foreign = 0;
}

void rsk_local_users_forget(struct rsk_local *l)
{
	uint64_t now = rsk_clock_ns();
	struct rsk_local_user *u, *next;

	for (u = l->users; u; u = next) {
		next = u->hh.next;
		if (u->n || u->asked || u->foreign || !rsk_local_user_has_share(u, now) ||
		    u->left_ns < SHARE_MOST_NS || rsk_link_refusals_any(&u->refusals, now))
			continue;
		HASH_DEL(l->users, u); /* NOLINT(clang-analyzer-unix.Malloc): removed before */
		free(u);
	}
}
