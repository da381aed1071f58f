// SPDX-License-Identifier: BSD-2-Clause
/*
 * wants.c - what the engine wants of the keeper, and what became of it: links to other hosts, by the place that
 * they lead to. Under the join lock.
 */
#include <errno.h>
#include <string.h>

#include "pairing.h"
#include "keeper.h"
#include "rendezvous.h"
#include "process.h"
#include "rdma.h"
#include "wants.h"

_Atomic(uint16_t) rsk_remote_port_now;
const struct rsk_remote_ops *rsk_remote_ops;

#define WANTS 256
#define FORGET_NS 1000000000ull /* how long a failure is remembered for who asks */

enum want_state {
	WANT_FREE,
	WANT_NEW,
	WANT_UNDER_WAY,
	WANT_UP,
	WANT_FAILED,
};

static struct want {
	enum want_state state;
	int err;
	uint64_t nonce;
	uint64_t since_ns; /* FAILED */
	struct rsk_remote_target target;
} wants[WANTS];

static bool same_place(const struct rsk_verbs_addr *a, const struct rsk_verbs_addr *b)
{
	return a->family == b->family && a->port == b->port && a->scope == b->scope &&
	       !memcmp(a->ip, b->ip, sizeof(a->ip));
}

static struct want *want_of(uint64_t nonce)
{
	for (int i = 0; i < WANTS; i++)
		if (wants[i].state != WANT_FREE && wants[i].nonce == nonce)
			return &wants[i];
	return NULL;
}

uint64_t rsk_remote_at(const struct rsk_remote_target *t)
{
	struct want *spare = NULL;

	for (int i = 0; i < WANTS; i++) {
		struct want *w = &wants[i];

		if (w->state == WANT_FREE) {
			spare = spare ? spare : w;
			continue;
		}
		if (same_place(&w->target.to, &t->to) && w->state != WANT_FAILED)
			return w->nonce;
	}
	if (!spare || rsk_keeper_start() < 0)
		return 0;
	*spare = (struct want){ .state = WANT_NEW, .nonce = rsk_random64(), .target = *t };
	rsk_keeper_call();
	return spare->nonce;
}

int rsk_remote_progress(uint64_t nonce)
{
	struct want *w = want_of(nonce);
	int err;

	if (!w)
		return -ESTALE;
	if (w->state == WANT_UP)
		return 0;
	if (w->state == WANT_NEW && rsk_keeper_failed()) { /* it began, and came to nothing */
		w->state = WANT_FREE;
		return -ENODEV;
	}
	if (w->state != WANT_FAILED)
		return -EINPROGRESS;
	err = w->err;
	w->state = WANT_FREE;
	return err;
}

bool rsk_want_next(uint64_t now_ns, uint64_t *nonce, struct rsk_remote_target *target)
{
	bool found = false;

	rsk_pairing_take();
	for (int i = 0; i < WANTS && !found; i++) {
		struct want *w = &wants[i];

		if (w->state == WANT_FAILED && now_ns - w->since_ns > FORGET_NS)
			w->state = WANT_FREE;
		if (w->state != WANT_NEW)
			continue;
		w->state = WANT_UNDER_WAY;
		*nonce = w->nonce;
		*target = w->target;
		found = true;
	}
	rsk_pairing_give();
	return found;
}

void rsk_want_up(uint64_t nonce)
{
	struct want *w = want_of(nonce);

	if (w)
		w->state = WANT_UP;
}

void rsk_want_gone(uint64_t nonce, int err)
{
	struct want *w = want_of(nonce);

	if (!w)
		return;
	/* Who was up and is no more can be wanted anew at once. */
	if (w->state == WANT_UP) {
		w->state = WANT_FREE;
		return;
	}
	w->state = WANT_FAILED;
	w->err = err < 0 ? err : -EPIPE;
	w->since_ns = rsk_now_ns();
}

void rsk_wants_forget(void)
{
	memset(wants, 0, sizeof(wants));
}

bool rsk_remote_able(void)
{
	return !rsk_keeper_failed() && rsk_rdma_device();
}

int rsk_remote_accept(void)
{
	return rsk_rdma_device() ? rsk_keeper_start() : -ENODEV;
}

uint16_t rsk_remote_port(void)
{
	return rsk_keeper_runs() ? atomic_load(&rsk_remote_port_now) : 0;
}
