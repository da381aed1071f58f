// SPDX-License-Identifier: BSD-2-Clause
/* registry.c - see registry.h. */
#include "registry.h"
#include "registry_dir.h"
#include "user.h"

#include <fcntl.h>
#include <limits.h>
#include <rsock/sys.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WINDOW_BYTES (RSK_REGISTRY_PROBES * sizeof(struct rsk_registry_entry))

/* --- the pure part ----------------------------------------------------------------------- */

uint32_t rsk_registry_place(uint64_t key, const struct rsk_tuple *tuple)
{
	struct rsk_tuple name = *tuple;

	/* The two ends may have different scopes: the scope must not affect the place. */
	name.scope = 0;
	name.pad = 0;
	name.pad2 = 0;
	return (uint32_t)(XXH3_64bits_withSeed(&name, sizeof(name), key) %
			  (RSK_REGISTRY_ENTRIES - RSK_REGISTRY_PROBES + 1));
}

static uint64_t entry_checksum(const struct rsk_registry_entry *entry, uint64_t key, uint32_t place)
{
	return XXH3_64bits_withSeed(entry, offsetof(struct rsk_registry_entry, checksum),
				    key + place);
}

void rsk_registry_seal(struct rsk_registry_entry *entry, uint64_t key, uint32_t place)
{
	entry->magic = RSK_REGISTRY_ENTRY_MAGIC;
	entry->checksum = entry_checksum(entry, key, place);
}

static bool tuple_is_sane(const struct rsk_tuple *t)
{
	static const uint8_t zero[12];

	if (t->pad || t->pad2 || !t->local_port || !t->peer_port)
		return false;
	if (t->family == AF_INET)
		return memcmp(t->local + 4, zero, 12) == 0 && memcmp(t->peer + 4, zero, 12) == 0;
	return t->family == AF_INET6;
}

bool rsk_registry_validate(const struct rsk_registry_entry *entry, uint64_t key, uint32_t place)
{
	if (entry->magic != RSK_REGISTRY_ENTRY_MAGIC)
		return false;
	if (entry->checksum != entry_checksum(entry, key, place))
		return false;
	return entry->pid > 0 && entry->pid <= INT_MAX && entry->fd >= 0 && entry->flags == 0 &&
	       tuple_is_sane(&entry->tuple);
}

int rsk_registry_match(const struct rsk_registry_entry *window, uint64_t key, uint32_t place,
		       const struct rsk_tuple *tuple)
{
	int best = -1;

	for (unsigned int i = 0; i < RSK_REGISTRY_PROBES; i++) {
		if (!rsk_registry_validate(&window[i], key, place + i) ||
		    !rsk_tuple_equal(&window[i].tuple, tuple))
			continue;
		if (best < 0 || window[i].posted_ns > window[best].posted_ns)
			best = (int)i;
	}
	return best;
}

unsigned int rsk_registry_choose(const struct rsk_registry_entry *window, uint64_t key,
				 uint32_t place, const struct rsk_tuple *tuple, uint64_t now_ns,
				 bool (*alive)(const struct rsk_registry_entry *))
{
	unsigned int oldest = 0;
	uint64_t oldest_ns = UINT64_MAX;
	int own = rsk_registry_match(window, key, place, tuple);

	if (own >= 0)
		return (unsigned int)own;
	for (unsigned int i = 0; i < RSK_REGISTRY_PROBES; i++) {
		if (!rsk_registry_validate(&window[i], key, place + i))
			return i;
	}
	for (unsigned int i = 0; i < RSK_REGISTRY_PROBES; i++) {
		/* An offer from the future would never become old, so it is replaced first. */
		uint64_t ns = window[i].posted_ns > now_ns ? 0 : window[i].posted_ns;

		if (!alive(&window[i]))
			return i;
		if (ns < oldest_ns) {
			oldest_ns = ns;
			oldest = i;
		}
	}
	return oldest;
}

bool rsk_registry_alive(const struct rsk_registry_entry *entry)
{
	return rsk_sys_kill((pid_t)entry->pid, 0) != -ESRCH;
}

/* --- the file ---------------------------------------------------------------------------- */

static uint64_t header_checksum(const struct rsk_registry_header *h)
{
	return XXH3_64bits(h, offsetof(struct rsk_registry_header, checksum));
}

static bool header_is_valid(const struct rsk_registry_header *h)
{
	return h->magic == RSK_REGISTRY_MAGIC && h->version == RSK_REGISTRY_VERSION &&
	       h->entries == RSK_REGISTRY_ENTRIES && h->checksum == header_checksum(h);
}

/*
 * Adopts the file's key, or rewrites the header if it is damaged. All processes that knew the old
 * key write the same one, so that a repaired registry goes on working.
 */
static int header_sync(struct rsk_registry *reg)
{
	struct rsk_registry_header h;
	ssize_t n = rsk_sys_pread(reg->fd, &h, sizeof(h), 0);

	if (n < 0)
		return (int)n;
	if (n == sizeof(h) && header_is_valid(&h)) {
		reg->key = h.key;
		return 0;
	}
	if (!reg->key) {
		n = rsk_sys_getrandom(&reg->key, sizeof(reg->key), 0);
		if (n != sizeof(reg->key))
			return n < 0 ? (int)n : -EIO;
		reg->key |= 1;
	}
	h = (struct rsk_registry_header){
		.magic = RSK_REGISTRY_MAGIC,
		.version = RSK_REGISTRY_VERSION,
		.entries = RSK_REGISTRY_ENTRIES,
		.key = reg->key,
	};
	h.checksum = header_checksum(&h);
	n = rsk_sys_pwrite(reg->fd, &h, sizeof(h), 0);
	if (n != sizeof(h))
		return n < 0 ? (int)n : -EIO;
	/*
	 * Two processes may create it at once: what is read back now is what the later one wrote.
	 */
	n = rsk_sys_pread(reg->fd, &h, sizeof(h), 0);
	if (n == sizeof(h) && header_is_valid(&h))
		reg->key = h.key;
	return 0;
}

static int file_open(struct rsk_registry *reg)
{
	struct stat st;
	int dir, fd, err;

	reg->fd = -1;
	dir = rsk_registry_dir_open(reg->base, &reg->number);
	if (dir < 0)
		return dir;
	/* O_NONBLOCK: whatever file has our name, opening it must not wait. */
	fd = rsk_sys_openat(dir, "registry", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
			    0600);
	rsk_sys_close(dir);
	if (fd < 0)
		return fd == -ELOOP || fd == -EISDIR || fd == -ENXIO ? -EACCES : fd;
	err = rsk_sys_fstat(fd, &st);
	if (!err && (!S_ISREG(st.st_mode) || !rsk_user_same(st.st_uid, rsk_sys_geteuid()) ||
		     (st.st_mode & 077) != 0))
		err = -EACCES;
	if (err) {
		rsk_sys_close(fd);
		return err;
	}
	if (reg->place_fd) {
		fd = reg->place_fd(fd);
		if (fd < 0)
			return fd;
	}
	reg->fd = fd;
	reg->dev = st.st_dev;
	reg->ino = st.st_ino;
	err = header_sync(reg);
	if (err) {
		rsk_sys_close(fd);
		reg->fd = -1;
	}
	return err;
}

/*
 * Before each use: checks that the descriptor is still our file, and that the file still exists. A
 * descriptor that is the application's by now must neither be written to nor closed.
 */
static int file_check(struct rsk_registry *reg)
{
	struct stat st;

	if (reg->fd < 0)
		return file_open(reg);
	if (rsk_sys_fstat(reg->fd, &st) || st.st_dev != reg->dev || st.st_ino != reg->ino)
		return file_open(reg);
	if (st.st_nlink == 0 || rsk_registry_dir_moved(reg->base, reg->number)) {
		rsk_sys_close(reg->fd);
		return file_open(reg);
	}
	return header_sync(reg);
}

int rsk_registry_open(struct rsk_registry *reg, const char *base, int (*place_fd)(int fd))
{
	*reg = (struct rsk_registry){
		.fd = -1,
		.base = base ? base : RSK_REGISTRY_BASE,
		.place_fd = place_fd,
	};
	return file_open(reg);
}

void rsk_registry_close(struct rsk_registry *reg)
{
	struct stat st;

	if (reg->fd >= 0 && !rsk_sys_fstat(reg->fd, &st) && st.st_dev == reg->dev &&
	    st.st_ino == reg->ino)
		rsk_sys_close(reg->fd);
	reg->fd = -1;
}

static off_t place_offset(uint32_t place)
{
	return (off_t)RSK_REGISTRY_HEADER_BYTES +
	       (off_t)place * (off_t)sizeof(struct rsk_registry_entry);
}

/* Reads beyond the end of the file give zeros: free places. */
static int window_read(const struct rsk_registry *reg, uint32_t place,
		       struct rsk_registry_entry window[static RSK_REGISTRY_PROBES])
{
	ssize_t n;

	memset(window, 0, WINDOW_BYTES);
	n = rsk_sys_pread(reg->fd, window, WINDOW_BYTES, place_offset(place));
	return n < 0 ? (int)n : 0;
}

static int entry_write(const struct rsk_registry *reg, uint32_t place,
		       const struct rsk_registry_entry *entry)
{
	ssize_t n = rsk_sys_pwrite(reg->fd, entry, sizeof(*entry), place_offset(place));

	if (n < 0)
		return (int)n;
	return n == sizeof(*entry) ? 0 : -ENOSPC;
}

/* True if it is the same offer, whenever it was posted. */
static bool same_offer(const struct rsk_registry_entry *a, const struct rsk_registry_entry *b)
{
	return a->pid == b->pid && a->fd == b->fd && a->nonce == b->nonce &&
	       a->sock_cookie == b->sock_cookie && a->user == b->user &&
	       a->tuple.scope == b->tuple.scope && rsk_tuple_equal(&a->tuple, &b->tuple);
}

int rsk_registry_post(struct rsk_registry *reg, const struct rsk_registry_entry *offer)
{
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES];
	struct rsk_registry_entry entry = *offer;
	uint32_t place;
	unsigned int i;
	int err;

	err = file_check(reg);
	if (err)
		return err;
	place = rsk_registry_place(reg->key, &offer->tuple);
	err = window_read(reg, place, window);
	if (err)
		return err;
	entry.flags = 0;
	memset(entry.reserved, 0, sizeof(entry.reserved));
	i = rsk_registry_choose(window, reg->key, place, &entry.tuple, entry.posted_ns,
				rsk_registry_alive);
	rsk_registry_seal(&entry, reg->key, place + i);
	if (!rsk_registry_validate(&entry, reg->key, place + i))
		return -EINVAL;
	if (rsk_registry_validate(&window[i], reg->key, place + i) &&
	    same_offer(&window[i], &entry))
		return 0;
	return entry_write(reg, place + i, &entry);
}

int rsk_registry_find(struct rsk_registry *reg, const struct rsk_tuple *mine,
		      struct rsk_registry_entry *out)
{
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES];
	struct rsk_tuple theirs = rsk_tuple_mirror(mine);
	uint32_t place;
	int err, i;

	err = file_check(reg);
	if (err)
		return err;
	place = rsk_registry_place(reg->key, &theirs);
	err = window_read(reg, place, window);
	if (err)
		return err;
	i = rsk_registry_match(window, reg->key, place, &theirs);
	if (i < 0)
		return -ENOENT;
	*out = window[i];
	return 0;
}

int rsk_registry_withdraw(struct rsk_registry *reg, const struct rsk_tuple *mine, uint64_t nonce)
{
	static const struct rsk_registry_entry nothing;
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES];
	uint32_t place;
	int err, ret = -ENOENT;

	err = file_check(reg);
	if (err)
		return err;
	place = rsk_registry_place(reg->key, mine);
	err = window_read(reg, place, window);
	if (err)
		return err;
	for (unsigned int i = 0; i < RSK_REGISTRY_PROBES; i++) {
		if (!rsk_registry_validate(&window[i], reg->key, place + i) ||
		    window[i].nonce != nonce || !rsk_tuple_equal(&window[i].tuple, mine))
			continue;
		err = entry_write(reg, place + i, &nothing);
		if (err)
			return err;
		ret = 0;
	}
	return ret;
}
