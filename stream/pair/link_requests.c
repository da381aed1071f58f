// SPDX-License-Identifier: BSD-2-Clause
/*
 * link_requests.c - link requests: links to other hosts that the engine has requested from the
 * progress thread, by the address that they lead to, and what became of them. See link_requests.h.
 * Under the pairing lock.
 */
#include <errno.h>
#include <string.h>

#include "pairing.h"
#include "progress.h"
#include "rendezvous.h"
#include "process.h"
#include "rdma.h"
#include "link_requests.h"

_Atomic(uint16_t) rsk_remote_port_now;
const struct rsk_remote_ops *rsk_remote_ops;

#define REQUESTS 256
#define FORGET_NS 1000000000ull /* how long a failure is kept for the stream that asks */

enum want_state {
	REQUEST_FREE,
	REQUEST_NEW,
	REQUEST_UNDER_WAY,
	REQUEST_UP,
	REQUEST_FAILED,
};

static struct want {
	enum want_state state;
	int err;
	uint64_t nonce;
	uint64_t since_ns; /* FAILED */
	struct rsk_remote_target target;
} wants[REQUESTS];

static bool same_place(const struct rsk_verbs_addr *a, const struct rsk_verbs_addr *b)
{
	return a->family == b->family && a->port == b->port && a->scope == b->scope &&
	       !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* True if the other end will take @t for one of the host from which the link of @w comes. */
static bool same_source(const struct rsk_remote_target *w, const struct rsk_remote_target *t)
{
	return !memcmp(w->tuple.local, t->tuple.local, sizeof(t->tuple.local)) ||
	       (t->from.family && w->from.family == t->from.family &&
		!memcmp(w->from.ip, t->from.ip, sizeof(t->from.ip)));
}

static struct want *want_of(uint64_t nonce)
{
	for (int i = 0; i < REQUESTS; i++)
		if (wants[i].state != REQUEST_FREE && wants[i].nonce == nonce)
			return &wants[i];
	return NULL;
}

uint64_t rsk_remote_at(const struct rsk_remote_target *t)
{
	struct want *spare = NULL;

	for (int i = 0; i < REQUESTS; i++) {
		struct want *w = &wants[i];

		if (w->state == REQUEST_FREE) {
			spare = spare ? spare : w;
			continue;
		}
		if (same_place(&w->target.to, &t->to) && w->target.dscp == t->dscp &&
		    same_source(&w->target, t) && w->state != REQUEST_FAILED)
			return w->nonce;
	}
	if (!spare || rsk_progress_start() < 0)
		return 0;
	*spare = (struct want){ .state = REQUEST_NEW, .nonce = rsk_random64(), .target = *t };
	rsk_progress_call();
	return spare->nonce;
}

int rsk_remote_progress(uint64_t nonce)
{
	struct want *w = want_of(nonce);
	int err;

	if (!w)
		return -ESTALE;
	if (w->state == REQUEST_UP)
		return 0;
	if (w->state == REQUEST_NEW && rsk_progress_failed()) { /* it was started, and failed */
		w->state = REQUEST_FREE;
		return -ENODEV;
	}
	if (w->state != REQUEST_FAILED)
		return -EINPROGRESS;
	err = w->err;
	w->state = REQUEST_FREE;
	return err;
}

bool rsk_link_request_next(uint64_t now_ns, uint64_t *nonce, struct rsk_remote_target *target)
{
	bool found = false;

	rsk_pairing_take();
	for (int i = 0; i < REQUESTS && !found; i++) {
		struct want *w = &wants[i];

		if (w->state == REQUEST_FAILED && now_ns - w->since_ns > FORGET_NS)
			w->state = REQUEST_FREE;
		if (w->state != REQUEST_NEW)
			continue;
		w->state = REQUEST_UNDER_WAY;
		*nonce = w->nonce;
		*target = w->target;
		found = true;
	}
	rsk_pairing_give();
	return found;
}

void rsk_link_request_up(uint64_t nonce)
{
	struct want *w = want_of(nonce);

	if (w)
		w->state = REQUEST_UP;
}

void rsk_link_request_gone(uint64_t nonce, int err)
{
	struct want *w = want_of(nonce);

	if (!w)
		return;
	/* A link that was up and is gone can be requested again at once. */
	if (w->state == REQUEST_UP) {
		w->state = REQUEST_FREE;
		return;
	}
	w->state = REQUEST_FAILED;
	w->err = err < 0 ? err : -EPIPE;
	w->since_ns = rsk_now_ns();
}

void rsk_link_requests_forget(void)
{
	memset(wants, 0, sizeof(wants));
}

bool rsk_remote_able(void)
{
	return !rsk_progress_failed() && rsk_rdma_device();
}

int rsk_remote_accept(void)
{
	return rsk_rdma_device() ? rsk_progress_start() : -ENODEV;
}

uint16_t rsk_remote_port(void)
{
	return rsk_progress_runs() ? atomic_load(&rsk_remote_port_now) : 0;
}
