// SPDX-License-Identifier: BSD-2-Clause
/* place.c - see place.h and pairing.h; and how a stream becomes untracked. */
#include "place.h"

#include <string.h>

#include "pairing.h"
#include "stream.h"

/* Private to the process; a child makes its own. Guarded by lock. */
static struct {
	struct rsk_lock lock;
	int pid;
	struct rsk_registry registry;
} place;

void rsk_pairing_take(void)
{
	rsk_lock(&place.lock);
}

bool rsk_pairing_try(void)
{
	return rsk_trylock(&place.lock);
}

void rsk_pairing_give(void)
{
	rsk_unlock(&place.lock);
}

void rsk_place_is_mine(void)
{
	if (place.pid == rsk_pid)
		return;
	place.pid = rsk_pid;
	rsk_registry_open(&place.registry, NULL, rsk_own_fd);
}

struct rsk_registry *rsk_place_registry(void)
{
	return &place.registry;
}

void rsk_place_forked(void)
{
	memset(&place.lock, 0, sizeof(place.lock));
}

void rsk_place_leave(void)
{
	if (place.pid)
		rsk_registry_close(&place.registry);
	place.pid = 0;
}

bool rsk_pairing_take_anyhow(bool wait, bool *held)
{
	*held = rsk_lock_mine(&place.lock);
	if (!*held && wait)
		rsk_pairing_take();
	return *held || wait || rsk_pairing_try();
}

void rsk_pairing_forget(struct rsk_stream *s, bool wait)
{
	bool held;

	if (!s->pairing.posted_nonce)
		return;
	if (place.pid == rsk_pid) {
		if (!rsk_pairing_take_anyhow(wait, &held))
			return;
		rsk_registry_withdraw(&place.registry, &s->tuple, s->pairing.posted_nonce);
		if (!held)
			rsk_pairing_give();
	}
	s->pairing.posted_nonce = 0;
}

void rsk_stream_untrack(struct rsk_stream *s, enum rsk_reason why)
{
	int fd = atomic_load(&s->named) ? -1 : rsk_stream_find_fd(s);

	if (fd >= 0)
		rsk_stream_name(s, fd); /* named now, since its calls are not counted any more */
	rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_REFUSED, why);
	rsk_stats_set_reason(s->rec, why);
	rsk_stats_given_up(s->rec);
	rsk_pairing_forget(s, false);
	atomic_store(&s->phase, RSK_PHASE_UNTRACKED);
	rsk_fd_replace((uintptr_t)s | RSK_FD_TRACKED, (uintptr_t)s);
}
