// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_list.c - creates, ends and frees the progress thread's objects of links to other hosts.
 * Only the progress thread runs this.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "pairing.h"
#include "progress.h"
#include "links.h"
#include "local.h"
#include "log.h"
#include "rendezvous.h"
#include "recovery.h"
#include "process.h"
#include "remote_parts.h"
#include "pending_pairs.h"

struct rsk_remotes rsk_remotes = { .listener.fd = -1, .work.fd = -1 };

void rsk_remotes_forget(void)
{
	rsk_remotes = (struct rsk_remotes){ .listener.fd = -1, .work.fd = -1 };
}

static void on_gone(struct rsk_control_conn *c, int err)
{
	struct rsk_remote *r = (struct rsk_remote *)(void *)c;

	rsk_remote_dead(r, err);
}

struct rsk_remote *rsk_remote_new(bool initiator, rsk_remote_message_fn *message)
{
	struct rsk_remote *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->initiator = initiator;
	r->control.watch.fd = -1;
	r->control.message = message;
	r->control.gone = on_gone;
	r->pair.fd = -1;
	r->due_ns = rsk_now_ns() + RSK_REMOTE_GIVE_UP_NS;
	r->rest_ns = UINT64_MAX;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		r->rail[i] = (struct rsk_remote_rail){ .r = r,
						       .index = i,
						       .due_ns = UINT64_MAX,
						       .port = RSK_PORT_TABLE_NOWHERE,
						       .rings_ns = UINT64_MAX,
						       .register_ns = UINT64_MAX };
	rsk_pairing_take();
	DL_APPEND(rsk_remotes.all, r);
	rsk_pairing_give();
	return r;
}

/*
 * The engine's use of the link ends; the object is freed later (rsk_remotes_reap()), since its
 * callbacks may be running.
 */
void rsk_remote_dead(struct rsk_remote *r, int why)
{
	bool refused;

	if (r->state == RSK_REMOTE_DEAD)
		return;
	/*
	 * By a TCP reset or by rdma_cm. A peer that answers REFUSED is no such address: it takes
	 * links, but knows nothing of this mapping, which may have expired; the next one may do. It
	 * will not if it refuses the address from which this link came.
	 */
	refused = r->state < RSK_REMOTE_UP &&
		  (why == -ECONNREFUSED || r->peer_reason == RSK_REASON_OTHER_SOURCE);
	/*
	 * What entries of the linger list wait for may have arrived: the rail is polled once more.
	 */
	if (r->state == RSK_REMOTE_UP)
		rsk_recovery_work();
	rsk_log(RSK_LOG_INFO, "link %u to another host ends: %d", r->l ? r->l->number : 0, why);
	rsk_remotes.pending_peers -= !r->initiator && r->state == RSK_REMOTE_HANDSHAKING;
	r->state = RSK_REMOTE_DEAD;
	r->due_ns = 0;
	rsk_control_conn_close(&r->control);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		rsk_remote_rail_end(&r->rail[i]);
		rsk_reservations_give(&r->rail[i].reservation);
	}
	if (r->rails.one)
		rsk_rails_down(&r->rails);
	if (r->l)
		atomic_store(&r->l->seg.rail.broken, why < 0 ? why : -EPIPE);
	rsk_pairing_take();
	r->ended = true;
	if (r->listed)
		rsk_link_kill(r->l);
	if (r->mapped) {
		r->mapped = false;
		rsk_local_unlink_unused(r->target.handle);
	}
	if (r->initiator) {
		rsk_link_request_gone(r->nonce, why);
		rsk_pending_pairs_lost(r->nonce, refused, r->peer_reason);
	}
	rsk_pairing_give();
	if (r->pair.fd >= 0) {
		rsk_progress_unwatch(&r->pair);
		rsk_own_close(r->pair.fd); /* the engine sees that the peer is gone */
		r->pair.fd = -1;
	}
	if (r->listed)
		rsk_recovery_lost(r->l);
}

bool rsk_remote_waits(const struct rsk_remote *r)
{
	uint32_t number;
	bool waits;

	/* Another rsockd does not know the question. */
	return r->waits_verdict && rsk_local_fd(&number, &waits) >= 0 && number == r->asked;
}

/*
 * The verdict on a link that has ended still comes: it must not be taken for that of another link
 * with the same mapping, and what rsockd holds by then is given back.
 */
static bool waits_verdict(const struct rsk_remote *r)
{
	bool waits;

	rsk_pairing_take();
	waits = rsk_remote_waits(r);
	rsk_pairing_give();
	return waits;
}

/* Frees dead links that no stream uses any more; the engine's object goes with its next sweep. */
void rsk_remotes_reap(void)
{
	struct rsk_remote *r, *next;

	DL_FOREACH_SAFE(rsk_remotes.all, r, next) {
		if (r->state != RSK_REMOTE_DEAD || (r->listed && atomic_load(&r->l->streams)) ||
		    waits_verdict(r))
			continue;
		for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
			if (r->rail[i].rail)
				rsk_rdma_module->rail_free(r->rail[i].rail);
			rsk_ring_regs_free(&r->rail[i].ways);
		}
		rsk_pairing_take();
		DL_DELETE(rsk_remotes.all, r);
		if (r->listed)
			atomic_store(&r->l->let_go, true);
		else if (r->l)
			rsk_link_drop(r->l);
		rsk_links_sweep();
		rsk_pairing_give();
		rsk_rails_fini(&r->rails);
		free(r->credits);
		free(r);
	}
}
