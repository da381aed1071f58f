// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon_inbox.c - what rsockd answers, and what the other hosts' processes say to the engine, the keeper hears; so
 * does whoever makes a call. But the program may sleep for longer than a mapping is held, rsockd does not keep what
 * finds no room in the socket's queue, and what is behind the engine's messages must not wait until there is room for
 * them: where a rail broke, how much has come. Keeper only.
 */
#include <sys/epoll.h>

#include "pairing.h"
#include "progress.h"
#include "local.h"
#include "rendezvous.h"
#include "remote_parts.h"
#include "pending_pairs.h"

/* Private to the process. */
static struct {
	struct rsk_watch watch;
	uint32_t number;
	bool waits; /* for room to say something, too */
} inbox = { .watch.fd = -1 };

static void speaks(struct rsk_watch *w, uint32_t events)
{
	rsk_pairing_take();
	rsk_local_hear();
	rsk_pairing_give();
}

void rsk_remote_watch_daemon(void)
{
	uint32_t number;
	bool waits;
	int fd;

	rsk_pairing_take();
	fd = rsk_local_fd(&number, &waits);
	rsk_pairing_give();
	if (fd != inbox.watch.fd || number != inbox.number) {
		/* The former one was closed, and is watched no more by that. */
		inbox.watch = (struct rsk_watch){ .fd = fd, .ready = speaks };
		inbox.number = number;
		inbox.waits = waits;
		if (fd >= 0 &&
		    rsk_progress_watch(&inbox.watch, EPOLLIN | (waits ? (uint32_t)EPOLLOUT : 0u),
				       true) < 0)
			inbox.watch.fd = -1;
	} else if (fd >= 0 && waits != inbox.waits) {
		inbox.waits = waits;
		rsk_progress_watch(&inbox.watch, EPOLLIN | (waits ? (uint32_t)EPOLLOUT : 0u),
				   false);
	}
}

void rsk_remote_hear(struct rsk_remote *r)
{
	if (!r->listed || r->state == RSK_REMOTE_DEAD)
		return;
	rsk_pairing_take();
	r->more = rsk_rendezvous_hear(r->l);
	if (r->initiator)
		rsk_pending_pairs_work(r->l);
	rsk_pairing_give();
}
