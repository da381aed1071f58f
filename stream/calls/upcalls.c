// SPDX-License-Identifier: BSD-2-Clause
/*
 * upcalls.c - the callbacks that the lower layers of stream/ call: those of upcall.h, of the links,
 * and of the progress thread.
 */
#include "upcalls.h"

#include "engine.h"
#include "epoll.h"
#include "pairing.h"
#include "progress.h"
#include "fallback.h"
#include "links.h"
#include "local.h"
#include "other_version.h"
#include "rendezvous.h"
#include "relay.h"
#include "remote.h"
#include "stream.h"
#include "pm_transaction.h"
#include "upcall.h"
#include "link_requests.h"

static void ending(struct rsk_stream *s)
{
	if (atomic_load(&s->goodbye_due))
		rsk_stream_goodbye(s, -1);
	if (__builtin_expect(s->pairing.mapping != 0, 0))
		rsk_local_unlink_later(s->pairing.mapping);
}

static int give_owed(struct rsk_stream *s, int fd)
{
	return rsk_stream_give_owed(s, fd, RSK_OWED_CLOSED, -1);
}

static const struct rsk_upcalls upcalls = {
	.closed_unseen = rsk_fd_closed_unseen,
	.ending = ending,
	.unpaired = rsk_pm_transaction_over,
	.link_unused = rsk_pairing_sweep,
	.paired = rsk_epoll_paired,
	.changed = rsk_epoll_stream_event,
	.last_goodbye = rsk_stream_last_goodbye,
	.give_owed = give_owed,
	.leave = rsk_fd_fall_back,
	.watched = rsk_fd_watched,
};

void rsk_upcalls_init(void)
{
	rsk_upcalls = &upcalls;
	rsk_links_gone = rsk_epoll_link_gone;
	rsk_progress_job = &rsk_remote_job;
	rsk_remote_ops = &rsk_link_handshake_ops;
	rsk_rendezvous_message = rsk_pm_transaction_message;
	rsk_rendezvous_other_version = rsk_other_version_message;
}
