// SPDX-License-Identifier: BSD-2-Clause
/*
 * rendezvous.c - the local socket on which other processes reach this one, and the links that
 * result: the link handshake, the exchange of segments and doorbells, reading messages. All under
 * the caller's lock (pairing.c); nothing here blocks.
 */
#include "rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <rsock/sys.h>

#include "doorbell.h"
#include "fdmsg.h"
#include "handshake.h"
#include "links.h"
#include "log.h"
#include "stream.h"
#include "user.h"

#define LINKS_PER_PEER 4
#define PENDING_PEERS_AT_ONCE 16
#define MESSAGES_AT_ONCE 64

/* Private to the process; a child makes its own. */
static struct {
	int listener;
	uint64_t nonce;
} endpoint = { .listener = -1 };

void (*rsk_rendezvous_message)(struct rsk_link *l, const struct rsk_link_msg *m,
			       const struct rsk_pm_msg *pm);

void (*rsk_rendezvous_other_version)(struct rsk_link *l, const struct rsk_link_version_msg *m);

static socklen_t endpoint_name(struct sockaddr_un *sa, uint64_t nonce)
{
	int n;

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "rsock-%x-%016llx",
		     (unsigned int)rsk_sys_geteuid(), (unsigned long long)nonce);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int rsk_rendezvous_listen(void)
{
	struct sockaddr_un sa;
	int fd, rc;

	if (endpoint.listener >= 0)
		return 0;
	fd = rsk_own_fd(rsk_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fd;
	endpoint.nonce = rsk_random64();
	rc = rsk_sys_bind(fd, &sa, endpoint_name(&sa, endpoint.nonce));
	if (rc == 0)
		rc = rsk_sys_listen(fd, 128);
	if (rc < 0) {
		rsk_own_close(fd);
		return rc;
	}
	endpoint.listener = fd;
	return 0;
}

uint64_t rsk_rendezvous_nonce(void)
{
	return endpoint.nonce;
}

int rsk_rendezvous_fd(void)
{
	return endpoint.listener;
}

void rsk_rendezvous_close(void)
{
	if (endpoint.listener >= 0)
		rsk_own_close(endpoint.listener);
	endpoint.listener = -1;
	endpoint.nonce = 0;
}

/* ---- links ---- */

/*
 * The initiator sends HELLO when it has connected, the acceptor when it has received one; each is
 * UP once it has the other's.
 */
static int send_hello(struct rsk_link *l)
{
	struct rsk_link_msg m = { .type = RSK_LINK_HELLO };
	int fds[RSK_LINK_MSG_FDS], rc = rsk_link_make_doorbells(l);

	if (rc < 0)
		return rc;
	fds[0] = rsk_own_fd(rsk_shm_create(&l->seg, rsk_knobs.ring_bytes));
	if (fds[0] < 0)
		return fds[0];
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++)
		fds[1 + i] = l->doorbell[i];
	m.geometry = l->seg.own;
	rc = rsk_link_msg_send(l->control, &m, fds, RSK_LINK_MSG_FDS);
	rsk_own_close(fds[0]);
	return rc;
}

void rsk_link_kill(struct rsk_link *l)
{
	atomic_store(&l->state, RSK_LINK_DEAD);
}

/* What was lacking when HELLO or accept() last failed here; 0: a HELLO has come through since. */
static int lacks;

int rsk_rendezvous_lacks(void)
{
	return lacks;
}

static void note_lack(int rc)
{
	if (rc == 0 || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOSPC)
		lacks = rc;
}

static int on_hello(struct rsk_link *l, const struct rsk_link_msg *m, int *fds, int nfds)
{
	int rc;

	if (nfds != RSK_LINK_MSG_FDS || atomic_load(&l->state) != RSK_LINK_HANDSHAKING)
		return -EPROTO;
	rc = rsk_shm_attach(&l->seg, fds[0], &m->geometry);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		if (!rsk_doorbell_check(fds[1 + i]))
			return -EPROTO;
		l->seg.peer_doorbell[i] = rsk_own_fd(fds[1 + i]);
		fds[1 + i] = -1;
		if (l->seg.peer_doorbell[i] < 0)
			return -EMFILE;
	}
	if (!l->initiator) {
		rc = send_hello(l);
		if (rc < 0)
			return rc;
	}
	atomic_store(&l->state, RSK_LINK_UP);
	return 0;
}

static int peer_of(int control, struct rsk_rendezvous_peer *peer)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int rc = rsk_sys_getsockopt(control, SOL_SOCKET, SO_PEERCRED, &cred, &len);

	if (rc < 0)
		return rc;
	*peer = (struct rsk_rendezvous_peer){ .pid = cred.pid, .uid = cred.uid };
	return rsk_user_same(cred.uid, rsk_sys_geteuid()) ? 0 : -EPERM;
}

static struct rsk_link *link_add(int control, bool initiator,
				 const struct rsk_rendezvous_peer *peer)
{
	struct rsk_link *l = rsk_link_new(initiator);

	if (!l) {
		rsk_fdmsg_close(control, rsk_own_close);
		return NULL;
	}
	l->control = control;
	l->peer_pid = peer->pid;
	l->peer_uid = peer->uid;
	l->vouched = peer->vouched;
	l->peer_nonce = peer->nonce;
	if (rsk_links_add(l) < 0) {
		rsk_link_drop(l);
		return NULL;
	}
	return l;
}

struct rsk_link *rsk_rendezvous_known(uint64_t nonce)
{
	for (uint32_t i = 0; i < rsk_links.n; i++) {
		struct rsk_link *l = rsk_links.at[i].l;

		if (l->maker == rsk_pid && l->peer_nonce == nonce &&
		    atomic_load(&l->state) != RSK_LINK_DEAD)
			return l;
	}
	return NULL;
}

static int begin_link(int control, const struct rsk_rendezvous_peer *peer)
{
	struct rsk_link *l = link_add(control, true, peer);
	int rc = l ? send_hello(l) : -ENOMEM;

	if (l && rc < 0)
		rsk_link_kill(l);
	return rc;
}

void rsk_rendezvous_vouched(int control, bool initiator, const struct rsk_rendezvous_peer *peer)
{
	rsk_links_sweep();
	if (initiator)
		begin_link(control, peer);
	else
		link_add(control, false, peer);
}

struct rsk_link *rsk_rendezvous_at(uint64_t nonce, int *err)
{
	struct sockaddr_un sa;
	socklen_t len = endpoint_name(&sa, nonce);
	struct rsk_link *l = rsk_rendezvous_known(nonce);
	struct rsk_rendezvous_peer peer;
	int fd;

	*err = 0;
	if (l)
		return l;
	rsk_links_sweep();
	fd = rsk_own_fd(rsk_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	*err = fd;
	if (fd < 0)
		return NULL;
	*err = rsk_sys_connect(fd, &sa, len);
	if (*err >= 0)
		*err = peer_of(fd, &peer);
	if (*err < 0) {
		rsk_own_close(fd); /* nothing was sent to us yet */
		return NULL;
	}
	peer.nonce = nonce;
	*err = begin_link(fd, &peer);
	return rsk_rendezvous_known(nonce); /* none if that has failed */
}

/*
 * -EPROTO, -EBADMSG: the peer breaks the protocol. Others: it has just gone, or this process lacks
 * a resource.
 */
static void refuse(struct rsk_link *l, int rc)
{
	rsk_log(rc == -EPROTO || rc == -EBADMSG ? RSK_LOG_ERROR : RSK_LOG_INFO,
		"link %u: pid %d refused: %d", l->number, l->peer_pid, rc);
	rsk_link_kill(l);
}

/*
 * A message of another version, of which this one knows the first bytes, and all of it if it is a
 * struct rsk_link_version_msg. The link goes no further than this, and stays, so that the next
 * streams of the two processes need no new one.
 */
static int on_other_version(struct rsk_link *l, uint32_t version, const void *msg, size_t bytes)
{
	struct rsk_link_version_msg m = { .fd = -1 };
	int rc = 0;

	if (atomic_load(&l->state) != RSK_LINK_HANDSHAKING)
		return -EPROTO;
	if (!l->other_version) {
		rsk_log(RSK_LOG_INFO, "link %u: pid %d has version %u of the link, this process %d",
			l->number, l->peer_pid, version, RSK_LINK_VERSION);
		l->other_version = version;
		if (!l->initiator)
			rc = rsk_link_version_send(l->control, &m);
	}
	if (bytes != sizeof(m))
		return rc;
	memcpy(&m, msg, sizeof(m));
	if (m.type == RSK_LINK_IS_OF_VERSION && m.fd >= 0 && !l->initiator)
		rsk_rendezvous_other_version(l, &m);
	return rc;
}

/*
 * A message that could not be received, since its length or its descriptors are not those of ours:
 * it may be another version's HELLO. 0, or -errno, which is @rc if it is none.
 */
static int on_misfit(struct rsk_link *l, int rc)
{
	uint64_t magic;
	ssize_t n = rc == -EPROTO ? rsk_fdmsg_peek(l->control, &magic, sizeof(magic)) : 0;
	uint32_t version = n > 0 ? rsk_link_msg_other_version(&magic, (size_t)n) : 0;
	int dropped;

	if (!version)
		return rc;
	dropped = rsk_fdmsg_drop(l->control, RSK_FDMSG_MEMORY);
	return dropped < 0 ? dropped : on_other_version(l, version, NULL, 0);
}

static void on_message(struct rsk_link *l, const struct rsk_link_msg *m, size_t bytes, int *fds,
		       int nfds)
{
	uint32_t version = rsk_link_msg_other_version(m, bytes);
	struct rsk_pm_msg pm;
	int rc = version ? 0 : rsk_link_msg_validate(m, bytes, &pm);

	if (version)
		rc = on_other_version(l, version, m, bytes);
	else if (l->other_version)
		rc = -EPROTO;
	else if (rc == 0 && m->type == RSK_LINK_HELLO)
		note_lack(rc = on_hello(l, m, fds, nfds));
	else if (rc == 0 && (atomic_load(&l->state) != RSK_LINK_UP || nfds))
		rc = -EPROTO;
	else if (rc == 0)
		rsk_rendezvous_message(l, m, &pm);
	if (rc < 0)
		refuse(l, rc);
	for (int i = 0; i < nfds; i++)
		if (fds[i] >= 0)
			rsk_sys_close(fds[i]);
}

bool rsk_rendezvous_hear(struct rsk_link *l)
{
	if (l->maker != rsk_pid || atomic_load(&l->state) == RSK_LINK_DEAD)
		return false;
	if (atomic_load(&l->state) == RSK_LINK_UP) {
		/*
		 * The peer counts its messages in our segment after sending each: an unchanged
		 * count saves the recvmsg(). The end of the connection is not seen here, but by
		 * rsk_links_sweep().
		 */
		uint32_t messages = atomic_load(&rsk_seg_own_head(&l->seg)->messages);

		if (messages == atomic_load(&l->messages_seen))
			return false;
		atomic_store(&l->messages_seen, messages);
	}
	for (int i = 0;; i++) {
		struct rsk_link_msg m;
		int fds[RSK_LINK_MSG_FDS], nfds;
		ssize_t n;

		if (i == MESSAGES_AT_ONCE) {
			/* Makes the counts differ, so that the next call reads on. */
			atomic_fetch_sub(&l->messages_seen, 1);
			return true;
		}
		n = rsk_link_msg_recv(l->control, &m, fds, &nfds);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return false;
		if (n < 0 && (n = on_misfit(l, (int)n)) == 0)
			continue;
		if (n < 0) {
			note_lack((int)n);
			refuse(l, (int)n);
		} else if (n == 0) {
			rsk_link_kill(l);
		}
		if (n <= 0)
			return false;
		on_message(l, &m, (size_t)n, fds, nfds);
		if (atomic_load(&l->state) == RSK_LINK_DEAD)
			return false;
	}
}

/*
 * An honest process makes one link to this one, and another if it was restarted under the same pid.
 * A dead link counts until its streams are closed, since it holds its descriptors until then.
 */
static bool too_many(int pid)
{
	int n = 0;

	for (uint32_t i = 0; i < rsk_links.n; i++) {
		const struct rsk_link *l = rsk_links.at[i].l;

		n += !l->initiator && l->maker == rsk_pid && l->peer_pid == pid;
	}
	return n >= LINKS_PER_PEER;
}

/*
 * Accepts pending peers and reads messages; both are limited, so that no peer can keep the thread
 * here.
 */
void rsk_rendezvous_work(void)
{
	struct rsk_rendezvous_peer peer;
	bool swept = false;

	if (endpoint.listener >= 0 && !rsk_fdmsg_is_full())
		for (int i = 0; i < PENDING_PEERS_AT_ONCE; i++) {
			int fd = rsk_sys_accept4(endpoint.listener, NULL, NULL,
						 SOCK_CLOEXEC | SOCK_NONBLOCK);

			if (fd < 0) {
				note_lack(fd);
				break;
			}
			fd = rsk_own_fd(fd);
			if (fd < 0) {
				note_lack(fd);
				continue;
			}
			if (!swept)
				rsk_links_sweep();
			swept = true;
			/* It may hold descriptors whose close() blocks: fdmsg.h. */
			if (peer_of(fd, &peer) < 0 || too_many(peer.pid))
				rsk_fdmsg_close(fd, rsk_own_close);
			else if (!link_add(fd, false, &peer))
				note_lack(-ENOMEM);
		}
	for (uint32_t i = 0; i < rsk_links.n; i++)
		rsk_rendezvous_hear(rsk_links.at[i].l);
}
