// SPDX-License-Identifier: BSD-2-Clause
/* ask.c - see ask.h. */
#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <rsock/local.h>
#include <rsock/sys.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "arena.h"
#include "local.h"
#include "local_msg.h"
#include "meet.h"
#include "stream.h"
#include "tuple.h"

/*
 * Private to the process; a child has its own copy. What it points to never changes, nor is it given back: somebody may
 * be reading it, and lists change when an operator changes them. Release when it is set, acquire by readers.
 */
static _Atomic(const struct rsk_local_first *) list;

/* Of the file that it was read from. Under the join lock. */
static struct {
	dev_t dev;
	ino_t ino;
	struct timespec changed;
} seen;

static bool is_valid(const struct rsk_local_first *f)
{
	return f->magic == RSK_LOCAL_MAGIC && f->n <= RSK_LOCAL_FIRST_MOST &&
	       f->checksum == XXH3_64bits(f, offsetof(struct rsk_local_first, checksum));
}

/* NULL: it is none, or just being written. */
static const struct rsk_local_first *read_list(int fd)
{
	struct rsk_local_first *f = rsk_arena_alloc(sizeof(*f));

	if (f && rsk_sys_pread(fd, f, sizeof(*f), 0) == sizeof(*f) && is_valid(f))
		return f;
	rsk_arena_free(f);
	return NULL;
}

static int open_list(void)
{
	static const char suffix[] = RSK_LOCAL_FIRST_SUFFIX;
	size_t len = strlen(rsk_knobs.daemon);
	char path[256];

	if (!len || len + sizeof(suffix) > sizeof(path))
		return -EINVAL;
	memcpy(path, rsk_knobs.daemon, len);
	memcpy(path + len, suffix, sizeof(suffix));
	return rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
}

void rsk_ask_look(void)
{
	const struct rsk_local_first *now;
	int fd = open_list();
	struct stat st;

	if (fd < 0)
		return;
	if (rsk_sys_fstat(fd, &st) == 0 &&
	    (st.st_ino != seen.ino || st.st_dev != seen.dev ||
	     memcmp(&st.st_mtim, &seen.changed, sizeof(seen.changed)) != 0) &&
	    (now = read_list(fd))) {
		seen.dev = st.st_dev;
		seen.ino = st.st_ino;
		seen.changed = st.st_mtim;
		atomic_store_explicit(&list, now, memory_order_release);
	}
	rsk_sys_close(fd);
}

static bool within(const struct rsk_local_prefix *p, const struct rsk_tuple *to)
{
	uint16_t bits = p->bits;
	uint8_t rest;

	if (p->family != to->family || bits > (to->family == AF_INET ? 32 : 128))
		return false;
	rest = (uint8_t)(0xff00u >> bits % 8);
	return memcmp(p->ip, to->peer, bits / 8) == 0 &&
	       (!rest || ((p->ip[bits / 8] ^ to->peer[bits / 8]) & rest) == 0);
}

static bool is_on_list(const struct rsk_local_first *l, const struct rsk_tuple *to)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (within(&l->at[i], to))
			return true;
	return false;
}

/* The answer to this question; false: it does not come in time. */
static bool hear(int fd, uint64_t cookie, uint32_t wait_ms, struct rsk_local_msg *m)
{
	uint64_t end = rsk_now_ns() + wait_ms * UINT64_C(1000000), now;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while ((now = rsk_now_ns()) < end) {
		struct timespec left = { .tv_sec = (time_t)((end - now) / 1000000000),
					 .tv_nsec = (long)((end - now) % 1000000000) };
		int with, rc = rsk_sys_ppoll(&p, 1, &left, NULL);

		if (rc < 0 && rc != -EINTR)
			return false;
		if (rc <= 0)
			continue;
		rc = rsk_local_msg_recv(fd, true, m, &with);
		if (with >= 0)
			rsk_sys_close(with);
		if (rc <= 0 && rc != -EAGAIN)
			return false;
		if (rc > 0 && m->type == RSK_LOCAL_ANSWER && m->cookie == cookie)
			return true;
	}
	return false;
}

/* A socket of its own for each question: threads do not wait for each other, nor take each other's answers. */
static bool ask(const struct rsk_tuple *to, uint32_t wait_ms, bool ahead, struct rsk_local_msg *m)
{
	int fd = rsk_local_dial();
	bool known = false;

	if (fd < 0)
		return false;
	*m = (struct rsk_local_msg){ .type = RSK_LOCAL_ASK,
				     .flags = ahead ? RSK_LOCAL_QUIET : 0,
				     .tuple = *to,
				     .cookie = rsk_random64() };
	if (rsk_local_msg_send(fd, m, -1) == 0 && !ahead)
		known = hear(fd, m->cookie, wait_ms, m);
	rsk_own_close(fd);
	return known;
}

/* In the family that was asked for: an IPv6 socket takes IPv4 addresses mapped. */
static bool put(const struct rsk_local_msg *m, const struct sockaddr *to, socklen_t len,
		struct sockaddr_storage *instead)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)instead;
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)instead;
	bool is_v4 = m->tuple.family == AF_INET;

	if (!m->port || len > sizeof(*instead))
		return false;
	memcpy(instead, to, len);
	if (to->sa_family == AF_INET) {
		memcpy(&v4->sin_addr, m->ip, 4);
	} else if (is_v4) {
		memset(&v6->sin6_addr, 0, 10);
		memset(&v6->sin6_addr.s6_addr[10], 0xff, 2);
		memcpy(&v6->sin6_addr.s6_addr[12], m->ip, 4);
	} else {
		memcpy(&v6->sin6_addr, m->ip, 16);
	}
	return true;
}

bool rsk_ask_any(void)
{
	const struct rsk_local_first *l;

	if (atomic_load_explicit(&rsk_stopped, memory_order_relaxed))
		return false;
	rsk_join_hello();
	l = atomic_load_explicit(&list, memory_order_acquire);
	if (__builtin_expect(!l, 1))
		return false;
	/* Who only connects makes no steps, by which the list would be kept up to date. */
	if (rsk_local_due())
		rsk_join_look();
	return atomic_load_explicit(&list, memory_order_acquire)->n;
}

bool rsk_ask_first(const struct sockaddr *to, socklen_t len, bool ahead,
		   struct sockaddr_storage *instead)
{
	const struct rsk_local_first *l = atomic_load_explicit(&list, memory_order_acquire);
	struct rsk_local_msg m;
	struct rsk_tuple at;

	if (!l || rsk_tuple_peer(to, len, &at) < 0 || !at.peer_port || !is_on_list(l, &at))
		return false;
	if (!ask(&at, l->wait_ms > 10000 ? 10000 : l->wait_ms, ahead, &m))
		return false;
	m.tuple.family = at.family;
	return put(&m, to, len, instead);
}
