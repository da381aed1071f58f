// SPDX-License-Identifier: BSD-2-Clause
/*
 * link_handshake.c - the link handshake with another host. The initiator connects, sends HELLO and
 * names the stream for which it wants the link; the accepting end admits it once rsockd has
 * confirmed that the mapping named in HELLO was granted to that peer for that stream. Until then a
 * pending peer costs one descriptor. Only the progress thread runs this, except for the functions
 * that link_requests.h gives to the engine (rsk_link_handshake_ops).
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <utlist.h>

#include <rsock/sys.h>

#include "local.h"
#include "other_version.h"
#include "pairing.h"
#include "progress.h"
#include "log.h"
#include "rendezvous.h"
#include "remote_parts.h"
#include "stream.h"
#include "tuple.h"

#define HELLO_NS 2000000000ull /* time in which a pending peer must send HELLO */
#define PENDING_PEERS 32       /* control connections that have not been admitted yet */
#define RING_LIMITED (128u << 10)

/* A process whose address space is limited reserves less of it. */
static uint32_t ring_bytes(void)
{
	struct rlimit lim = { .rlim_cur = RLIM_INFINITY };

	getrlimit(RLIMIT_AS, &lim);
	return lim.rlim_cur != RLIM_INFINITY && rsk_knobs.rdma_ring_bytes > RING_LIMITED ?
		       RING_LIMITED :
		       rsk_knobs.rdma_ring_bytes;
}

/* Makes our end of the link, for the initiator and for admitted peers: doorbells and a segment. */
static int own_end(struct rsk_remote *r)
{
	int fd;

	r->l = rsk_link_new(r->initiator);
	if (!r->l)
		return -EMFILE;
	fd = rsk_link_hear(r->l, rsk_rdma_news_fd());
	if (fd == 0)
		fd = rsk_shm_create(&r->l->seg, ring_bytes());
	if (fd < 0)
		return fd;
	rsk_sys_close(fd);
	return 0;
}

static int window(struct rsk_remote *r, const struct rsk_seg_geometry *g,
		  struct rsk_order_form form)
{
	int rc = rsk_shm_mirror(&r->l->seg, g);
	struct rsk_rails_layout at;

	if (rc < 0)
		return rc;
	r->l->order = form;
	at = rsk_rails_layout_of(&r->l->seg);
	rc = rsk_rails_init(&r->rails, &r->l->seg.rail, &at);
	if (rc < 0)
		return rc;
	r->rail[0].from = r->target.from;
	r->rail[0].to = r->target.to;
	return rsk_remote_rail_make(r, 0);
}

static void say_hello(struct rsk_remote *r)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_HELLO,
				    .nonce = r->nonce,
				    .secret = r->secret,
				    .handle = r->target.handle,
				    .tuple = r->target.tuple,
				    .geometry = r->l->seg.own,
				    .order = rsk_remote_order_of(&rsk_knobs.order) };

	rsk_control_conn_send(&r->control, &m);
}

static socklen_t sockaddr_of(const struct rsk_verbs_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = a->family;
	if (a->family == AF_INET) {
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip, 4);
		return sizeof(*in);
	}
	in6->sin6_port = htons(a->port);
	memcpy(&in6->sin6_addr, a->ip, 16);
	in6->sin6_scope_id = a->scope;
	return sizeof(*in6);
}

static int dial(struct rsk_remote *r)
{
	struct sockaddr_storage ss;
	socklen_t len = sockaddr_of(&r->target.to, &ss);
	int rc = own_end(r), fd;

	if (rc < 0)
		return rc;
	fd = rsk_own_fd(
		rsk_sys_socket(r->target.to.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fd;
	rc = rsk_sys_connect(fd, &ss, len);
	if (rc < 0 && rc != -EINPROGRESS) {
		rsk_own_close(fd);
		return rc;
	}
	rc = rsk_control_conn_open(&r->control, fd, rc == -EINPROGRESS);
	if (rc == 0)
		say_hello(r);
	return rc;
}

void rsk_link_handshake_begin(uint64_t nonce, const struct rsk_remote_target *target)
{
	struct rsk_remote *r = rsk_remote_new(true, rsk_remote_message);
	int rc;

	if (!r) {
		rsk_pairing_take();
		rsk_link_request_gone(nonce, -ENOMEM);
		rsk_pairing_give();
		return;
	}
	r->control.other_version = rsk_link_handshake_other_version;
	r->target = *target;
	r->nonce = nonce;
	r->secret = rsk_random64();
	rc = dial(r);
	if (rc < 0)
		rsk_remote_dead(r, rc);
}

/*
 * The peer names the stream for which it comes: rsockd knows whether the stream was mapped to that
 * peer.
 */
void rsk_link_handshake_hello(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_tuple ours = rsk_tuple_mirror(&m->tuple);
	bool waits;
	int rc;

	if (r->nonce) {
		rsk_remote_dead(r, -EPROTO);
		return;
	}
	r->nonce = m->nonce;
	r->secret = m->secret;
	r->target.handle = m->handle;
	r->target.tuple = ours;
	r->geometry = m->geometry;
	r->form = rsk_remote_form(&m->order);
	r->due_ns = rsk_now_ns() + RSK_REMOTE_GIVE_UP_NS;
	rsk_pairing_take();
	rc = rsk_pairing_ask_about(&ours, m->handle, &r->here);
	r->waits_verdict = rc == 0;
	rsk_local_fd(&r->asked, &waits);
	rsk_pairing_give();
	if (rc < 0) {
		struct rsk_remote_msg no = { .type = RSK_REMOTE_REFUSED,
					     .reason = RSK_REASON_NO_PEER };

		rsk_control_conn_send(&r->control, &no);
		rsk_remote_dead(r, -ENOENT);
	}
}

/*
 * Of a HELLO of another version the first part is the same. It is asked about as any other, so that
 * nobody but a peer to which the stream is mapped can keep the stream on TCP.
 */
void rsk_link_handshake_other_version(struct rsk_control_conn *c, const struct rsk_remote_msg *m)
{
	struct rsk_remote *r = (struct rsk_remote *)(void *)c;

	if (r->state != RSK_REMOTE_HANDSHAKING) {
		rsk_remote_dead(r, -EPROTO);
		return;
	}
	r->other_version = rsk_remote_msg_other_version(m);
	rsk_log(RSK_LOG_INFO, "the other host's process has version %u of the link, this one %d",
		r->other_version, RSK_REMOTE_VERSION);
	if (r->initiator) {
		r->peer_reason = RSK_REASON_VERSION;
		rsk_remote_dead(r, -EPROTONOSUPPORT);
	} else if (rsk_remote_msg_check_fixed(m) < 0) {
		rsk_remote_dead(r, -EPROTO);
	} else {
		rsk_link_handshake_hello(r, m);
	}
}

/* Answers come in the order of the questions, so that of a link that has ended is its own, too. */
static bool answered(uint64_t handle, uint32_t reason, const uint8_t from_ip[static 16])
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r) {
		if (!rsk_remote_waits(r) || r->target.handle != handle)
			continue;
		r->waits_verdict = false;
		r->mapped = reason == RSK_REASON_MAPPED && !r->ended;
		if (r->ended && reason == RSK_REASON_MAPPED)
			rsk_local_unlink_unused(handle);
		r->verdict = reason + 1;
		memcpy(r->announced_ip, from_ip, sizeof(r->announced_ip));
		rsk_progress_call();
		return true;
	}
	return false;
}

static bool uses(uint64_t handle)
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r)
		if ((r->mapped || rsk_remote_waits(r)) && r->target.handle == handle)
			return true;
	return false;
}

static const struct rsk_verbs_addr *here(const struct rsk_link *l)
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r)
		if (r->l == l && !r->initiator)
			return &r->here;
	return NULL;
}

static const struct rsk_verbs_addr *from(const struct rsk_link *l, const struct rsk_tuple *ours)
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r)
		if (r->l == l)
			return !r->initiator && memcmp(r->target.tuple.peer, ours->peer,
						       sizeof(ours->peer)) != 0 ?
				       &r->came_from :
				       NULL;
	return NULL;
}

static bool vouched(const struct rsk_link *l, uint64_t handle, const struct rsk_tuple *ours)
{
	struct rsk_remote *r;
	struct rsk_tuple t;

	DL_FOREACH(rsk_remotes.all, r) {
		if (r->l != l)
			continue;
		t = r->target.tuple;
		t.netns = ours->netns;
		return !r->initiator && r->target.handle == handle && rsk_tuple_equal(&t, ours);
	}
	return false;
}

void rsk_link_handshake_admit(struct rsk_remote *r)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_WELCOME,
				    .order = rsk_remote_order_of(&rsk_knobs.order) };
	uint32_t verdict;
	int rc;

	rsk_pairing_take();
	verdict = r->verdict;
	r->verdict = 0;
	rsk_pairing_give();
	if (!verdict)
		return;
	rsk_log(RSK_LOG_DEBUG, "somebody comes, rsockd says %u", verdict - 1);
	if (verdict - 1 != RSK_REASON_MAPPED) {
		m.type = RSK_REMOTE_REFUSED;
		m.reason = verdict - 1;
		rsk_control_conn_send(&r->control, &m);
		rsk_remote_dead(r, -EACCES);
		return;
	}
	if (r->other_version) {
		rsk_pairing_take();
		rsk_other_version_mapped(&r->target.tuple);
		rsk_pairing_give();
		m.type = RSK_REMOTE_REFUSED;
		m.reason = RSK_REASON_VERSION;
		rsk_control_conn_send(&r->control, &m);
		rsk_remote_dead(r, -EPROTONOSUPPORT);
		return;
	}
	rc = own_end(r);
	if (rc == 0)
		rc = window(r, &r->geometry, r->form);
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	m.geometry = r->l->seg.own;
	r->state = RSK_REMOTE_RAILING;
	rsk_remotes.pending_peers--;
	rsk_control_conn_send(&r->control, &m);
}

void rsk_link_handshake_welcome(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	int rc;

	if (r->state != RSK_REMOTE_HANDSHAKING) {
		rsk_remote_dead(r, -EPROTO);
		return;
	}
	rc = window(r, &m->geometry, rsk_remote_form(&m->order));
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	rsk_log(RSK_LOG_DEBUG, "link %u: welcome", r->l->number);
	r->state = RSK_REMOTE_RAILING;
	rsk_remote_rail_begin(&r->rail[0]);
}

static void come_to(int fd, struct rsk_verbs_addr *here)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct rsk_tuple t;

	if (rsk_sys_getsockname(fd, &sa, &len) < 0 ||
	    rsk_tuple_peer((struct sockaddr *)&sa, len, &t) < 0)
		return;
	*here = (struct rsk_verbs_addr){ .port = t.peer_port, .family = t.family };
	memcpy(here->ip, t.peer, sizeof(here->ip));
}

/* Closes the pending peer that has waited longest without sending HELLO, to make room. */
static void show_out(void)
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r)
		if (!r->initiator && r->state == RSK_REMOTE_HANDSHAKING && !r->nonce) {
			rsk_remote_dead(r, -EBUSY);
			return;
		}
}

static void accept_one(int fd)
{
	struct rsk_remote *r;
	int rc;

	if (rsk_remotes.pending_peers >= PENDING_PEERS)
		show_out();
	r = rsk_remotes.pending_peers < PENDING_PEERS ? rsk_remote_new(false, rsk_remote_message) :
							NULL;
	if (!r) {
		rsk_own_close(fd);
		return;
	}
	r->control.other_version = rsk_link_handshake_other_version;
	rsk_remotes.pending_peers++;
	r->due_ns = rsk_now_ns() + HELLO_NS;
	come_to(fd, &r->here);
	rc = rsk_control_conn_open(&r->control, fd, false);
	if (rc < 0)
		rsk_remote_dead(r, rc);
}

/*
 * Edge triggered: a connection that cannot be accepted for want of descriptors is accepted when the
 * next one comes.
 */
void rsk_link_handshake_accept(struct rsk_watch *w, uint32_t events)
{
	for (;;) {
		int rc = rsk_sys_accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), fd;

		if (rc == -EINTR || rc == -ECONNABORTED)
			continue;
		if (rc < 0)
			return;
		fd = rsk_own_fd(rc);
		if (fd >= 0)
			accept_one(fd);
	}
}

const struct rsk_remote_ops rsk_link_handshake_ops = { .answered = answered,
						       .uses = uses,
						       .here = here,
						       .from = from,
						       .vouched = vouched };
