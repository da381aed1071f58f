// SPDX-License-Identifier: BSD-2-Clause
/* sessions.c - see sessions.h. */
#include "sessions.h"

#include <errno.h>
#include <stdlib.h>

#include "pm_hash.h"
#include <utlist.h>

/* uint64_t: no padding, which would be hashed. */
struct key {
	uint64_t handle;
	uint64_t process;
};

struct rsk_session_entry {
	struct key key;
	struct rsk_session session;
	struct rsk_session_owner *owner;
	struct rsk_session_entry *prev, *next; /* list of the process */
	struct rsk_session_entry *promised_prev, *promised_next;
	UT_hash_handle hh;
};

struct rsk_session_owner {
	uint32_t process;
	size_t n, promised;
	struct rsk_session_entry *entries;
	UT_hash_handle hh;
};

static struct rsk_session_entry *find(const struct rsk_sessions *s, uint32_t process,
				      uint64_t handle)
{
	const struct key key = { .handle = handle, .process = process };
	struct rsk_session_entry *entry;

	HASH_FIND(hh, s->entries, &key, sizeof(key), entry);
	return entry;
}

static struct rsk_session_owner *find_owner(const struct rsk_sessions *s, uint32_t process)
{
	struct rsk_session_owner *owner;

	HASH_FIND(hh, s->owners, &process, sizeof(process), owner);
	return owner;
}

static void no_promise(struct rsk_sessions *s, struct rsk_session_entry *entry)
{
	if (entry->session.used)
		return;
	DL_DELETE2(s->promised, entry, promised_prev, promised_next);
	s->n_promised--;
	entry->owner->promised--;
}

static void drop(struct rsk_sessions *s, struct rsk_session_entry *entry)
{
	struct rsk_session_owner *owner = entry->owner;
	uint64_t reservation = entry->session.reservation;

	no_promise(s, entry);
	HASH_DEL(s->entries, entry); /* NOLINT(clang-analyzer-core.NullDereference): not NULL */
	DL_DELETE(owner->entries, entry);
	if (--owner->n == 0) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
		HASH_DEL(s->owners, owner);
		free(owner);
	}
	s->n--;
	free(entry);
	s->release(s->ctx, reservation);
}

void rsk_sessions_fini(struct rsk_sessions *s)
{
	struct rsk_session_entry *entry, *next;

	for (entry = s->entries; entry; entry = next) {
		next = entry->hh.next;
		drop(s, entry);
	}
}

static struct rsk_session_owner *owner_of(struct rsk_sessions *s, uint32_t process)
{
	struct rsk_session_owner *owner = find_owner(s, process);

	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->process = process;
	HASH_ADD(hh, s->owners, process, sizeof(process), owner);
	return owner;
}

int rsk_sessions_add(struct rsk_sessions *s, const struct rsk_session *new, uint64_t now_ns)
{
	struct rsk_session_entry *entry;
	struct rsk_session_owner *owner;

	if (!new->handle || !new->process)
		return -EINVAL;
	if (find(s, new->process, new->handle))
		return -EEXIST;
	owner = find_owner(s, new->process);
	if (owner && owner->n >= RSK_SESSIONS_MOST_OF_ONE)
		return -ENOSPC;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	owner = owner_of(s, new->process);
	if (!owner) {
		free(entry);
		return -ENOMEM;
	}
	entry->key = (struct key){ .handle = new->handle, .process = new->process };
	entry->session = *new;
	entry->session.until_ns = now_ns + RSK_SESSIONS_PROMISED_NS;
	entry->owner = owner;
	HASH_ADD(hh, s->entries, key, sizeof(entry->key), entry);
	DL_APPEND(owner->entries, entry);
	owner->n++;
	s->n++;
	if (!new->used) {
		DL_APPEND2(s->promised, entry, promised_prev, promised_next);
		s->n_promised++;
		owner->promised++;
	}
	return 0;
}

const struct rsk_session *rsk_sessions_find(const struct rsk_sessions *s, uint32_t process,
					    uint64_t handle)
{
	const struct rsk_session_entry *entry = find(s, process, handle);

	return entry ? &entry->session : NULL;
}

bool rsk_sessions_set_qos(struct rsk_sessions *s, uint32_t process, uint64_t handle,
			  const struct rsk_qos *qos)
{
	struct rsk_session_entry *entry = find(s, process, handle);

	if (!entry)
		return false;
	entry->session.qos = *qos;
	return true;
}

void rsk_sessions_each(const struct rsk_sessions *s,
		       void (*each)(void *ctx, const struct rsk_session *one), void *ctx)
{
	for (struct rsk_session_entry *entry = s->entries; entry; entry = entry->hh.next)
		each(ctx, &entry->session);
}

bool rsk_sessions_use(struct rsk_sessions *s, uint32_t process, uint64_t handle)
{
	struct rsk_session_entry *entry = find(s, process, handle);

	if (!entry)
		return false;
	no_promise(s, entry);
	entry->session.used = true;
	return true;
}

bool rsk_sessions_drop(struct rsk_sessions *s, uint32_t process, uint64_t handle)
{
	struct rsk_session_entry *entry = find(s, process, handle);

	if (!entry)
		return false;
	drop(s, entry);
	return true;
}

size_t rsk_sessions_promised(const struct rsk_sessions *s, uint32_t process)
{
	const struct rsk_session_owner *owner = find_owner(s, process);

	return owner ? owner->promised : 0;
}

void rsk_sessions_gone(struct rsk_sessions *s, uint32_t process)
{
	struct rsk_session_owner *owner = find_owner(s, process);

	struct rsk_session_entry *entry, *next;

	/* Dropping the last entry also frees the process's entry. */
	for (entry = owner ? owner->entries : NULL; entry; entry = next) {
		next = entry->next;
		drop(s, entry);
	}
}

size_t rsk_sessions_expire(struct rsk_sessions *s, uint64_t now_ns)
{
	struct rsk_session_entry *entry, *next;
	size_t n = 0;

	for (entry = s->promised; entry && entry->session.until_ns <= now_ns; entry = next) {
		next = entry->promised_next;
		drop(s, entry);
		n++;
	}
	return n;
}

bool rsk_sessions_validate(const struct rsk_sessions *s)
{
	const struct rsk_session_entry *entry;
	const struct rsk_session_owner *owner;
	size_t n = 0, promised = 0, listed = 0;
	uint64_t last = 0;

	for (owner = s->owners; owner; owner = owner->hh.next) {
		size_t of_this = 0, unused = 0;

		DL_FOREACH(owner->entries, entry) {
			if (entry->owner != owner || entry->session.process != owner->process ||
			    !entry->session.handle ||
			    find(s, entry->session.process, entry->session.handle) != entry)
				return false;
			of_this++;
			unused += !entry->session.used;
		}
		if (!of_this || of_this != owner->n || unused != owner->promised ||
		    owner->n > RSK_SESSIONS_MOST_OF_ONE)
			return false;
		n += of_this;
		promised += unused;
	}
	DL_FOREACH2(s->promised, entry, promised_next)
	{
		if (entry->session.used || entry->session.until_ns < last)
			return false;
		last = entry->session.until_ns;
		listed++;
	}
	return n == s->n && n == HASH_COUNT(s->entries) && promised == s->n_promised &&
	       listed == promised;
}
