// SPDX-License-Identifier: BSD-2-Clause
/* resolve_list.c - see resolve_list.h. */
#include "resolve_list.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <rsock/sys.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "arena.h"
#include "engine.h"
#include "knobs.h"
#include "local_say.h"

/*
 * Private to the process; a child has its own copy. The list that it points to never changes and is
 * never freed: another thread may be reading it, and a list changes only when an operator changes
 * it. Stored with release, read with acquire.
 */
static _Atomic(const struct rsk_local_first_contact *) list;

/* Of the file from which the list was read. Under the pairing lock. */
static struct {
	dev_t dev;
	ino_t ino;
	struct timespec changed;
} seen;

static bool is_valid(const struct rsk_local_first_contact *f)
{
	return f->magic == RSK_LOCAL_MAGIC && f->n <= RSK_LOCAL_FIRST_CONTACT_MOST &&
	       f->checksum == XXH3_64bits(f, offsetof(struct rsk_local_first_contact, checksum));
}

/* NULL: it is not a list, or is just being written. */
static const struct rsk_local_first_contact *read_list(int fd)
{
	struct rsk_local_first_contact *f = rsk_arena_alloc(sizeof(*f));

	if (f && rsk_sys_pread(fd, f, sizeof(*f), 0) == sizeof(*f) && is_valid(f))
		return f;
	rsk_arena_free(f);
	return NULL;
}

static int open_list(void)
{
	static const char suffix[] = RSK_LOCAL_FIRST_CONTACT_SUFFIX;
	size_t len = strlen(rsk_knobs.daemon);
	char path[256];

	if (!len || len + sizeof(suffix) > sizeof(path))
		return -EINVAL;
	memcpy(path, rsk_knobs.daemon, len);
	memcpy(path + len, suffix, sizeof(suffix));
	return rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
}

void rsk_resolve_list_check(void)
{
	const struct rsk_local_first_contact *now;
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
		/* Listeners that exist are to keep first segments from now on. */
		rsk_rsockd.missed |= (now->flags & RSK_LOCAL_BETWEEN) &&
				     !rsk_resolve_list_between();
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

bool rsk_resolve_list_between(void)
{
	const struct rsk_local_first_contact *l = rsk_resolve_list();

	return l && (l->flags & RSK_LOCAL_BETWEEN);
}

bool rsk_resolve_list_has(const struct rsk_local_first_contact *l, const struct rsk_tuple *to)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (within(&l->at[i], to))
			return true;
	return false;
}

const struct rsk_local_first_contact *rsk_resolve_list(void)
{
	return atomic_load_explicit(&list, memory_order_acquire);
}
