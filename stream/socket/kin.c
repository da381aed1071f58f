// SPDX-License-Identifier: BSD-2-Clause
/* kin.c - see kin.h. */
#include "kin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "arena.h"
#include "lock.h"
#include "log.h"
#include "stream.h"

#define MESSAGES_AT_ONCE 256
#define CHANGED 0x80000000u /* in a message: changed, not closed */

struct held {
	struct rsk_shared *obj; /* NULL: no longer held by both */
	uint64_t serial;
};

/* One fork, seen from one of the two processes. Both have the same list of what they held then. */
struct kin {
	struct kin *next;
	/* Our socket; an anchor's is another process's, and only kept open. */
	int fd;
	int fd_there; /* the child's end, until the fork is over */
	bool anchor;  /* of a fork that this process's parent made before: see kin.h */
	uint32_t n, left;
	struct held held[];
};

/* Private to the process; a child has a copy. */
static struct {
	struct rsk_lock lock;
	struct kin *all;
	struct kin *coming; /* for the fork under way */
	uint64_t serials;
} kin;

static struct held *find(struct kin *k, const struct rsk_shared *obj)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (k->held[i].obj == obj && k->held[i].serial == obj->serial)
			return &k->held[i];
	return NULL;
}

/* One of the two processes holds it no more. */
static void drop(struct kin *k, struct held *h)
{
	if (h->obj->serial == h->serial && atomic_load(&h->obj->others))
		atomic_fetch_sub(&h->obj->others, 1);
	h->obj = NULL;
	k->left--;
}

static void drop_all(struct kin *k)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (k->held[i].obj)
			drop(k, &k->held[i]);
}

static void free_kin(struct kin *k)
{
	rsk_own_close(k->fd);
	rsk_own_close(k->fd_there);
	rsk_arena_free(k);
}

static void sweep(void)
{
	struct kin **p = &kin.all, *k;

	while ((k = *p)) {
		if (k->left) {
			p = &k->next;
			continue;
		}
		*p = k->next;
		free_kin(k);
	}
}

/* ---- fork ---- */

static uint32_t counted;

static void count_one(struct rsk_shared *obj)
{
	(void)obj;
	counted++;
}

static void add_one(struct rsk_shared *obj)
{
	struct kin *k = kin.coming;

	if (k->n == counted)
		return; /* one more since they were counted: the child will not know of it */
	if (!obj->serial)
		obj->serial = ++kin.serials;
	k->held[k->n++] = (struct held){ obj, obj->serial };
	/* Counted before the fork, so that the count is never too low. */
	atomic_fetch_add(&obj->others, 1);
	k->left++;
}

/* No process will announce a close. */
static void hold_for_good(struct rsk_shared *obj)
{
	atomic_fetch_add(&obj->others, 1);
}

void rsk_kin_fork(void (*each)(void (*add)(struct rsk_shared *obj)))
{
	int fds[2] = { -1, -1 };
	struct kin *k;

	rsk_lock(&kin.lock);
	counted = 0;
	each(count_one);
	if (!counted)
		return;
	k = rsk_arena_alloc(sizeof(*k) + counted * sizeof(struct held));
	kin.coming = k;
	if (!k) {
		rsk_log(RSK_LOG_ERROR, "fork: no memory to count holders");
		each(hold_for_good);
		return;
	}
	each(add_one);
	/* Without the sockets no close is ever announced: both processes stay on TCP. */
	rsk_sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
	k->fd = rsk_own_fd(fds[0]);
	k->fd_there = rsk_own_fd(fds[1]);
}

static void keep(struct kin *k)
{
	k->next = kin.all;
	kin.all = k;
	kin.coming = NULL;
}

void rsk_kin_fork_parent(bool ok)
{
	struct kin *k = kin.coming;

	if (k) {
		rsk_own_close(k->fd_there);
		k->fd_there = -1;
		keep(k);
		if (!ok)
			drop_all(k);
	}
	sweep();
	rsk_unlock(&kin.lock);
}

void rsk_kin_fork_child(void)
{
	struct kin *k = kin.coming;

	/*
	 * The child also holds what the parent still shares with an earlier child; the same applies
	 * to the pair with the parent's own parent.
	 */
	for (struct kin *elder = kin.all; elder; elder = elder->next)
		elder->anchor = true;
	if (k) {
		rsk_own_close(k->fd);
		k->fd = k->fd_there;
		k->fd_there = -1;
		keep(k);
	}
	sweep();
	rsk_unlock(&kin.lock);
}

bool rsk_kin_fd(int fd)
{
	for (const struct kin *k = kin.all; k; k = k->next)
		if (k->fd == fd)
			return true;
	return false;
}

/* ---- messages ---- */

/* The other process, and all processes that it has forked since, are gone. */
static bool over(const struct kin *k)
{
	struct pollfd p = { .fd = k->fd };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
	       (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* False: there may be more. */
static bool hear(struct kin *k)
{
	uint32_t m;

	for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
		if (rsk_sys_recvfrom(k->fd, &m, sizeof(m), MSG_DONTWAIT, NULL, NULL) != sizeof(m))
			return true;
		struct held *h = (m & ~CHANGED) < k->n ? &k->held[m & ~CHANGED] : NULL;

		if (!h || !h->obj || h->obj->serial != h->serial)
			continue;
		if (m & CHANGED)
			atomic_store(&h->obj->changed, true);
		else
			drop(k, h);
	}
	return false;
}

static void tell(struct kin *k, const struct held *h, uint32_t what)
{
	uint32_t m = (uint32_t)(h - k->held) | what;

	if (!k->anchor && k->fd >= 0)
		rsk_sys_sendto(k->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

void rsk_kin_survives(struct rsk_shared *obj, bool on)
{
	if (!obj->serial)
		return;
	rsk_sigdefer_enter();
	rsk_lock(&kin.lock);
	for (struct kin *k = kin.all; k; k = k->next)
		if (k->fd >= 0 && find(k, obj))
			rsk_sys_fcntl(k->fd, F_SETFD, on ? 0 : FD_CLOEXEC);
	rsk_unlock(&kin.lock);
	rsk_sigdefer_exit();
}

void rsk_kin_changed(struct rsk_shared *obj)
{
	rsk_sigdefer_enter();
	rsk_lock(&kin.lock);
	for (struct kin *k = kin.all; k; k = k->next) {
		struct held *h = find(k, obj);

		if (h)
			tell(k, h, CHANGED);
	}
	rsk_unlock(&kin.lock);
	rsk_sigdefer_exit();
}

void rsk_kin_check(void)
{
	rsk_sigdefer_enter();
	rsk_lock(&kin.lock);
	for (struct kin *k = kin.all; k; k = k->next) {
		if (k->fd < 0)
			continue;
		if ((k->anchor || hear(k)) && k->left && over(k))
			drop_all(k);
	}
	sweep();
	rsk_unlock(&kin.lock);
	rsk_sigdefer_exit();
}

/* Another fork than @k has passed it to a process. */
static bool others_have(const struct kin *k, const struct rsk_shared *obj)
{
	for (struct kin *o = kin.all; o; o = o->next)
		if (o != k && find(o, obj))
			return true;
	return false;
}

void rsk_kin_closed(struct rsk_shared *obj)
{
	if (!obj->serial || rsk_kernel_only())
		return;
	rsk_sigdefer_enter();
	rsk_lock(&kin.lock);
	for (struct kin *k = kin.all; k; k = k->next) {
		struct held *h = find(k, obj);

		/*
		 * While a descendant holds it, the other process is not told: it finds out when all
		 * have ended.
		 */
		if (h && !others_have(k, obj))
			tell(k, h, 0);
	}
	for (struct kin *k = kin.all; k; k = k->next) {
		struct held *h = find(k, obj);

		if (h && (k->anchor || !others_have(k, obj)))
			drop(k, h);
	}
	sweep();
	rsk_unlock(&kin.lock);
	rsk_sigdefer_exit();
}
