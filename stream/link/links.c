// SPDX-License-Identifier: BSD-2-Clause
/*
 * links.c - see links.h. This process made all links in the list: a child of a fork drops its
 * copies.
 *
 * Changed under the pairing lock (pairing.c), which also keeps the list unchanged during a fork.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include <rsock/sys.h>

#include "links.h"
#include "process.h"

#define FIRST_ROOM 64

struct rsk_links rsk_links;
void (*rsk_links_gone)(struct rsk_link *l);

/* ---- threads that use links without a pin ---- */

struct rsk_link_users rsk_link_users[RSK_LINK_USERS];
__thread struct rsk_link_users *rsk_link_users_mine;

void rsk_link_users_choose(void)
{
	static _Atomic(uint32_t) chosen;

	rsk_link_users_mine = &rsk_link_users[atomic_fetch_add(&chosen, 1) % RSK_LINK_USERS];
}

bool rsk_links_used(void)
{
	for (uint32_t i = 0; i < RSK_LINK_USERS; i++)
		if (atomic_load(&rsk_link_users[i].n))
			return true;
	return false;
}

void rsk_links_used_by_none(void)
{
	for (uint32_t i = 0; i < RSK_LINK_USERS; i++)
		atomic_store(&rsk_link_users[i].n, 0);
}

/* ---- the list ---- */

/*
 * An outgrown list is not unmapped: rsk_links_have() may be reading it. As each list has twice the
 * size of the one before, the old ones together are no larger than the last.
 */
static int grow(void)
{
	uint32_t room = rsk_links.room ? rsk_links.room * 2 : FIRST_ROOM;
	struct rsk_link_ref *old = atomic_load(&rsk_links.at);
	void *p = rsk_sys_mmap(NULL, room * sizeof(*old), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (rsk_sys_is_err(p))
		return -ENOMEM;
	if (old)
		memcpy(p, old, rsk_links.n * sizeof(*old));
	atomic_store(&rsk_links.at, (struct rsk_link_ref *)p);
	rsk_links.room = room;
	return 0;
}

int rsk_links_add(struct rsk_link *l)
{
	uint32_t n = atomic_load(&rsk_links.n);

	if (n == rsk_links.room && grow() < 0)
		return -ENOMEM;
	rsk_links.at[n].l = l;
	atomic_store(&rsk_links.n, n + 1);
	return 0;
}

bool rsk_links_have(const struct rsk_link *l)
{
	uint32_t n = atomic_load(&rsk_links.n);
	struct rsk_link_ref *at = atomic_load(&rsk_links.at);

	for (uint32_t i = 0; i < n; i++)
		if (at[i].l == l)
			return true;
	return false;
}

/* The last entry moves into the place: a concurrent reader finds it in one place or the other. */
static void take_out(uint32_t i)
{
	uint32_t last = atomic_load(&rsk_links.n) - 1;

	rsk_links.at[i] = rsk_links.at[last];
	atomic_store(&rsk_links.n, last);
}

bool rsk_link_peer_gone(const struct rsk_link *l)
{
	struct pollfd p = { .fd = l->control };

	if (l->hollow || rsk_kernel_only())
		return false;
	return l->control < 0 || (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
				  (p.revents & (POLLHUP | POLLERR | POLLNVAL)));
}

bool rsk_link_useless(const struct rsk_link *l)
{
	if (l->remote && l->maker == rsk_pid && !atomic_load(&l->let_go))
		return false;
	return !atomic_load(&l->streams) &&
	       (atomic_load(&l->state) == RSK_LINK_DEAD || rsk_link_peer_gone(l));
}

/*
 * The link is first removed from the epoll sets; then rsk_links_used() says whether a thread may
 * have found it there before: it stays until a sweep finds none.
 */
void rsk_links_sweep(void)
{
	uint32_t i = 0;

	while (i < atomic_load(&rsk_links.n)) {
		struct rsk_link_ref ref = rsk_links.at[i];

		if (!rsk_link_useless(ref.l)) {
			i++;
			continue;
		}
		if (rsk_links_gone)
			rsk_links_gone(ref.l);
		if (rsk_links_used()) {
			i++;
			continue;
		}
		take_out(i);
		rsk_link_drop(ref.l);
	}
}

void rsk_links_forked(bool asleep)
{
	uint32_t n = atomic_load(&rsk_links.n);

	for (uint32_t i = 0; i < n; i++)
		rsk_link_forked(rsk_links.at[i].l, asleep);
	atomic_store(&rsk_links.n, 0);
}

void rsk_links_leave(void)
{
	atomic_store(&rsk_links.n, 0);
}
