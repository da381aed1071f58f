// SPDX-License-Identifier: BSD-2-Clause
/* sessions.c - see sessions.h. */
#include "sessions.h"

#include <errno.h>
#include <stdlib.h>

#include "pm_hash.h"
#include <utlist.h>

/* uint64_t: no padding, which would be hashed. */
struct key {
	uint64_t link;
	uint64_t process;
};

struct rsk_sessions_slot {
	struct key key;
	struct rsk_session is;
	struct rsk_sessions_of *of;
	struct rsk_sessions_slot *prev, *next; /* list of the process */
	struct rsk_sessions_slot *promised_prev, *promised_next;
	UT_hash_handle hh;
};

struct rsk_sessions_of {
	uint32_t process;
	size_t n, promised;
	struct rsk_sessions_slot *slots;
	UT_hash_handle hh;
};

static struct rsk_sessions_slot *find(const struct rsk_sessions *s, uint32_t process, uint64_t link)
{
	const struct key key = { .link = link, .process = process };
	struct rsk_sessions_slot *slot;

	HASH_FIND(hh, s->slots, &key, sizeof(key), slot);
	return slot;
}

static struct rsk_sessions_of *find_of(const struct rsk_sessions *s, uint32_t process)
{
	struct rsk_sessions_of *of;

	HASH_FIND(hh, s->of, &process, sizeof(process), of);
	return of;
}

static void no_promise(struct rsk_sessions *s, struct rsk_sessions_slot *slot)
{
	if (slot->is.used)
		return;
	DL_DELETE2(s->promised, slot, promised_prev, promised_next);
	s->n_promised--;
	slot->of->promised--;
}

static void drop(struct rsk_sessions *s, struct rsk_sessions_slot *slot)
{
	struct rsk_sessions_of *of = slot->of;
	uint64_t reservation = slot->is.reservation;

	no_promise(s, slot);
	HASH_DEL(s->slots, slot); /* NOLINT(clang-analyzer-core.NullDereference): not NULL */
	DL_DELETE(of->slots, slot);
	if (--of->n == 0) {
		HASH_DEL(s->of, of); /* NOLINT(clang-analyzer-core.NullDereference): likewise */
		free(of);
	}
	s->n--;
	free(slot);
	s->release(s->ctx, reservation);
}

void rsk_sessions_fini(struct rsk_sessions *s)
{
	struct rsk_sessions_slot *slot, *next;

	for (slot = s->slots; slot; slot = next) {
		next = slot->hh.next;
		drop(s, slot);
	}
}

static struct rsk_sessions_of *of_process(struct rsk_sessions *s, uint32_t process)
{
	struct rsk_sessions_of *of = find_of(s, process);

	if (of)
		return of;
	of = calloc(1, sizeof(*of));
	if (!of)
		return NULL;
	of->process = process;
	HASH_ADD(hh, s->of, process, sizeof(process), of);
	return of;
}

int rsk_sessions_add(struct rsk_sessions *s, const struct rsk_session *new, uint64_t now_ns)
{
	struct rsk_sessions_slot *slot;
	struct rsk_sessions_of *of;

	if (!new->link || !new->process)
		return -EINVAL;
	if (find(s, new->process, new->link))
		return -EEXIST;
	of = find_of(s, new->process);
	if (of && of->n >= RSK_SESSIONS_MOST_OF_ONE)
		return -ENOSPC;
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	of = of_process(s, new->process);
	if (!of) {
		free(slot);
		return -ENOMEM;
	}
	slot->key = (struct key){ .link = new->link, .process = new->process };
	slot->is = *new;
	slot->is.until_ns = now_ns + RSK_SESSIONS_PROMISED_NS;
	slot->of = of;
	HASH_ADD(hh, s->slots, key, sizeof(slot->key), slot);
	DL_APPEND(of->slots, slot);
	of->n++;
	s->n++;
	if (!new->used) {
		DL_APPEND2(s->promised, slot, promised_prev, promised_next);
		s->n_promised++;
		of->promised++;
	}
	return 0;
}

const struct rsk_session *rsk_sessions_find(const struct rsk_sessions *s, uint32_t process,
					    uint64_t link)
{
	const struct rsk_sessions_slot *slot = find(s, process, link);

	return slot ? &slot->is : NULL;
}

bool rsk_sessions_set_qos(struct rsk_sessions *s, uint32_t process, uint64_t link,
			  const struct rsk_qos *qos)
{
	struct rsk_sessions_slot *slot = find(s, process, link);

	if (!slot)
		return false;
	slot->is.qos = *qos;
	return true;
}

void rsk_sessions_each(const struct rsk_sessions *s,
		       void (*each)(void *ctx, const struct rsk_session *one), void *ctx)
{
	for (struct rsk_sessions_slot *slot = s->slots; slot; slot = slot->hh.next)
		each(ctx, &slot->is);
}

bool rsk_sessions_use(struct rsk_sessions *s, uint32_t process, uint64_t link)
{
	struct rsk_sessions_slot *slot = find(s, process, link);

	if (!slot)
		return false;
	no_promise(s, slot);
	slot->is.used = true;
	return true;
}

bool rsk_sessions_drop(struct rsk_sessions *s, uint32_t process, uint64_t link)
{
	struct rsk_sessions_slot *slot = find(s, process, link);

	if (!slot)
		return false;
	drop(s, slot);
	return true;
}

size_t rsk_sessions_promised(const struct rsk_sessions *s, uint32_t process)
{
	const struct rsk_sessions_of *of = find_of(s, process);

	return of ? of->promised : 0;
}

void rsk_sessions_gone(struct rsk_sessions *s, uint32_t process)
{
	struct rsk_sessions_of *of = find_of(s, process);

	struct rsk_sessions_slot *slot, *next;

	/* Dropping the last slot also frees the process's entry. */
	for (slot = of ? of->slots : NULL; slot; slot = next) {
		next = slot->next;
		drop(s, slot);
	}
}

size_t rsk_sessions_expire(struct rsk_sessions *s, uint64_t now_ns)
{
	struct rsk_sessions_slot *slot, *next;
	size_t n = 0;

	for (slot = s->promised; slot && slot->is.until_ns <= now_ns; slot = next) {
		next = slot->promised_next;
		drop(s, slot);
		n++;
	}
	return n;
}

bool rsk_sessions_validate(const struct rsk_sessions *s)
{
	const struct rsk_sessions_slot *slot;
	const struct rsk_sessions_of *of;
	size_t n = 0, promised = 0, listed = 0;
	uint64_t last = 0;

	for (of = s->of; of; of = of->hh.next) {
		size_t of_this = 0, unused = 0;

		DL_FOREACH(of->slots, slot) {
			if (slot->of != of || slot->is.process != of->process || !slot->is.link ||
			    find(s, slot->is.process, slot->is.link) != slot)
				return false;
			of_this++;
			unused += !slot->is.used;
		}
		if (!of_this || of_this != of->n || unused != of->promised ||
		    of->n > RSK_SESSIONS_MOST_OF_ONE)
			return false;
		n += of_this;
		promised += unused;
	}
	DL_FOREACH2(s->promised, slot, promised_next)
	{
		if (slot->is.used || slot->is.until_ns < last)
			return false;
		last = slot->is.until_ns;
		listed++;
	}
	return n == s->n && n == HASH_COUNT(s->slots) && promised == s->n_promised &&
	       listed == promised;
}
