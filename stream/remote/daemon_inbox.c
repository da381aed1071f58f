// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon_inbox.c - the progress thread reads the daemon inbox and what other hosts' processes send
 * to the engine, as any thread that makes a call does. It is needed because the program may sleep
 * for longer than a mapping is held; rsockd drops answers that find no room in the socket's queue;
 * and messages behind the engine's on a control connection must not wait until the engine's socket
 * has room: they say how much had come when a rail broke. Only the progress thread runs this.
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
	bool waits; /* also for room to send */
} inbox = { .watch.fd = -1 };

void rsk_remote_forget_daemon(void)
{
	inbox.watch.fd = -1;
}

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
		/* The former descriptor was closed, which ended its watch. */
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
