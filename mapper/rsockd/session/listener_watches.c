// SPDX-License-Identifier: BSD-2-Clause
/* listener_watches.c - see listener_watches.h. */
#include "listener_watches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rsock/version.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "clock.h"
#include "diag.h"
#include "pm_msg.h"
#include "user.h"

#define MAGIC RSK_MAGIC(0x6e6c6b636f73, RSK_LISTENERS_VERSION)

struct head {
	uint64_t magic, n;
	uint64_t checksum; /* XXH3-64 of the entries, seeded with n */
};

/* No hidden padding, since it is hashed. */
struct entry {
	uint64_t cookie;
	struct rsk_pm_addr at;
	uint32_t uid;
};
_Static_assert(sizeof(struct entry) == 32, "no hidden padding");

/* ---- what the kernel knows ---- */

#define SWEEP_NS 2000000u /* limit of one sweep; the next one continues there */

struct claim {
	const struct rsk_listener *is;
	struct rsk_pm_addr at;
	bool found;
};

static void compare(void *ctx, uint64_t cookie, const struct rsk_pm_addr *at, uid_t uid)
{
	struct claim *c = ctx;

	if (cookie != c->is->cookie || !rsk_user_same(uid, c->is->uid))
		return;
	c->at = *at;
	c->found = true;
}

/*
 * Looks up this very socket. First it asks for the socket to which the kernel would give a
 * connection to that address. If that is another one (several share the port, or it is bound to a
 * device), it searches all sockets of the port. Returns 0; -ENOENT; or another -errno if the kernel
 * does not answer.
 */
static int ask(const struct rsk_listener *is, struct rsk_pm_addr *at)
{
	struct claim c = { .is = is };
	struct rsk_listening found;
	int rc = rsk_diag_listener(&is->at, &found);

	if (rc == 0)
		compare(&c, found.cookie, &found.at, found.uid);
	if (rc == 0 && !rsk_user_same(found.uid, is->uid))
		return -ENOENT;
	if (!c.found)
		rc = rsk_diag_listening(is->at.port, compare, &c);
	if (rc < 0)
		return rc;
	*at = c.at;
	return c.found ? 0 : -ENOENT;
}

int rsk_listener_watches_add(struct rsk_listener_watches *h, uint32_t process, uint32_t uid,
			     const struct rsk_pm_addr *at, uint64_t cookie)
{
	struct rsk_listener is = { .at = *at, .cookie = cookie, .process = process, .uid = uid };
	int rc = ask(&is, &is.at);

	if (rc < 0)
		return rc;
	rsk_listeners_drop(h->table, cookie, RSK_LISTENER_WATCHES_FORMER);
	return rsk_listeners_add(h->table, &is);
}

void rsk_listener_watches_gone(struct rsk_listener_watches *h, uint32_t process)
{
	rsk_listeners_hand_over(h->table, process, RSK_LISTENER_WATCHES_FORMER);
}

/* An entry is removed only if the kernel says that the socket is gone. */
static enum rsk_listeners_still still(void *ctx, const struct rsk_listener *is)
{
	const uint64_t *end_ns = ctx;
	struct rsk_pm_addr at;
	int rc;

	if (rsk_clock_ns() > *end_ns)
		return RSK_LISTENERS_LATER;
	rc = ask(is, &at);
	return rc == -ENOENT || (rc == 0 && !rsk_pm_addr_equal(&at, &is->at)) ? RSK_LISTENERS_GONE :
										RSK_LISTENERS_THERE;
}

void rsk_listener_watches_sweep(struct rsk_listener_watches *h)
{
	uint64_t end_ns = rsk_clock_ns() + SWEEP_NS;

	rsk_listeners_check(h->table, still, &end_ns);
}

/* ---- the file ---- */

struct list {
	struct entry *at;
	uint64_t n;
};

static void put(void *ctx, const struct rsk_listener *is)
{
	struct list *list = ctx;

	if (list->n < RSK_LISTENER_WATCHES_MOST)
		list->at[list->n++] =
			(struct entry){ .cookie = is->cookie, .at = is->at, .uid = is->uid };
}

static uint64_t checksum(const struct entry *at, uint64_t n)
{
	return XXH3_64bits_withSeed(at, n * sizeof(*at), n);
}

/*
 * Writes in place and does not wait for the disk: in /run it is memory, and the checksum makes a
 * half-written file invalid.
 */
void rsk_listener_watches_write(struct rsk_listener_watches *h)
{
	struct list list = { 0 };
	struct head head = { .magic = MAGIC };

	if (h->fd < 0 || h->written == h->table->changes)
		return;
	list.at = calloc(RSK_LISTENER_WATCHES_MOST, sizeof(*list.at));
	if (!list.at)
		return;
	rsk_listeners_each(h->table, put, &list);
	head.n = list.n;
	head.checksum = checksum(list.at, list.n);
	if (pwrite(h->fd, &head, sizeof(head), 0) == sizeof(head) &&
	    pwrite(h->fd, list.at, list.n * sizeof(*list.at), sizeof(head)) ==
		    (ssize_t)(list.n * sizeof(*list.at)))
		h->written = h->table->changes;
	free(list.at);
}

static void take_in(struct rsk_listener_watches *h)
{
	struct entry *at = calloc(RSK_LISTENER_WATCHES_MOST, sizeof(*at));
	struct head head;

	if (at && pread(h->fd, &head, sizeof(head), 0) == sizeof(head) && head.magic == MAGIC &&
	    head.n <= RSK_LISTENER_WATCHES_MOST &&
	    pread(h->fd, at, head.n * sizeof(*at), sizeof(head)) ==
		    (ssize_t)(head.n * sizeof(*at)) &&
	    head.checksum == checksum(at, head.n))
		for (uint64_t i = 0; i < head.n; i++)
			rsk_listeners_add(h->table, &(struct rsk_listener){
							    .at = at[i].at,
							    .cookie = at[i].cookie,
							    .process = RSK_LISTENER_WATCHES_FORMER,
							    .uid = at[i].uid });
	free(at);
	rsk_listeners_check(h->table, still, &(uint64_t){ UINT64_MAX }); /* all of them */
}

int rsk_listener_watches_open(struct rsk_listener_watches *h, struct rsk_listeners *table,
			      const char *path)
{
	char name[256];

	*h = (struct rsk_listener_watches){ .table = table, .fd = -1 };
	if (snprintf(name, sizeof(name), "%s" RSK_LISTENER_WATCHES_SUFFIX, path) >=
	    (int)sizeof(name))
		return -ENAMETOOLONG;
	h->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (h->fd < 0)
		return -errno;
	take_in(h);
	return 0;
}

void rsk_listener_watches_close(struct rsk_listener_watches *h)
{
	if (!h->table)
		return;
	if (h->fd >= 0)
		close(h->fd);
	*h = (struct rsk_listener_watches){ .fd = -1 };
}
