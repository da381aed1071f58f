// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_engine.c - hands a link that is up to the engine; the engine's messages over it, in both
 * directions, are relayed through the control connection. Only the progress thread runs this.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "pairing.h"
#include "progress.h"
#include "links.h"
#include "process.h"
#include "remote_parts.h"

static void from_engine(struct rsk_watch *w, uint32_t events)
{
	struct rsk_remote *r =
		(struct rsk_remote *)(void *)((char *)w - offsetof(struct rsk_remote, pair));
	struct rsk_remote_msg out = { .type = RSK_REMOTE_LINK };
	int fds[RSK_LINK_MSG_FDS], nfds;
	ssize_t n;

	if (r->holds && (events & EPOLLOUT) &&
	    rsk_link_msg_send(r->pair.fd, &r->held, NULL, 0) == 0) {
		atomic_fetch_add(&rsk_seg_own_head(&r->l->seg)->messages, 1);
		r->holds = false;
		rsk_progress_watch(&r->pair, EPOLLIN, false);
		rsk_control_conn_pause(&r->control, false);
	}
	while (r->state != RSK_REMOTE_DEAD) {
		n = rsk_link_msg_recv(r->pair.fd, &out.link, fds, &nfds);
		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0) {
			rsk_remote_dead(r, n ? (int)n : -EPIPE);
			return;
		}
		out.link_bytes = (uint32_t)n;
		if (!rsk_control_conn_send(&r->control, &out))
			return;
		/* The peer needs its ring here, and we need the peer's. */
		if (out.link.type == RSK_LINK_PAIR || out.link.type == RSK_LINK_ACCEPT)
			rsk_remote_want_ring(r, out.link.sid);
	}
}

void rsk_remote_from_engine(struct rsk_remote *r)
{
	if (r->pair.fd >= 0)
		from_engine(&r->pair, 0);
}

void rsk_remote_to_engine(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_link_msg msg = m->link;
	int rc;

	if (r->pair.fd < 0)
		return;
	rc = rsk_link_msg_send(r->pair.fd, &msg, NULL, 0);
	if (rc == -EAGAIN) {
		r->held = msg;
		r->holds = true;
		rsk_control_conn_pause(&r->control, true);
		rsk_progress_watch(&r->pair, EPOLLIN | EPOLLOUT, false);
	} else if (rc < 0) {
		rsk_remote_dead(r, rc);
	} else {
		atomic_fetch_add(&rsk_seg_own_head(&r->l->seg)->messages, 1);
	}
}

/* The first rail is up: streams may be paired. Returns 0 or -errno. */
static int hand_over(struct rsk_remote *r)
{
	int half[2], rc;

	rc = rsk_sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, half);
	if (rc < 0)
		return rc;
	r->l->control = rsk_own_fd(half[0]);
	r->pair = (struct rsk_watch){ .fd = rsk_own_fd(half[1]), .ready = from_engine };
	if (r->l->control < 0 || r->pair.fd < 0)
		return -EMFILE;
	rc = rsk_progress_watch(&r->pair, EPOLLIN, true);
	if (rc < 0)
		return rc;
	r->l->vouched = true;
	r->l->peer_nonce = r->initiator ? r->nonce : 0;
	rsk_pairing_take();
	rc = rsk_links_add(r->l);
	if (rc == 0) {
		r->listed = true;
		r->l->waits = r->initiator;
		atomic_store(&r->l->state, RSK_LINK_UP);
		if (r->initiator)
			rsk_link_request_up(r->nonce);
	}
	rsk_pairing_give();
	return rc;
}

void rsk_remote_up(struct rsk_remote *r)
{
	int rc = 0;

	if (r->state == RSK_REMOTE_RAILING)
		rc = hand_over(r);
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	r->state = RSK_REMOTE_UP;
	r->due_ns = UINT64_MAX;
}
