// SPDX-License-Identifier: BSD-2-Clause
/* control_conn.c - see control_conn.h. */
#include "control_conn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "engine.h"
#include "stream.h"

/* enough for one control message for each stream that a link can have */
#define OUT_LIMIT (32u << 20)
#define MESSAGES_AT_ONCE 64
/*
 * Keepalive: a peer host that is silent for about this long is gone; TCP alone would wait for
 * hours.
 */
#define KEEP_IDLE_S 10
#define KEEP_INTERVAL_S 5
#define KEEP_COUNT 6

static void interest(struct rsk_control_conn *c)
{
	uint32_t events = (c->paused ? 0u : (uint32_t)EPOLLIN) |
			  (c->connecting || c->out_from != c->out_to ? (uint32_t)EPOLLOUT : 0u);

	rsk_progress_watch(&c->watch, events, false);
}

static void lost(struct rsk_control_conn *c, int err)
{
	if (c->watch.fd < 0)
		return;
	rsk_control_conn_close(c);
	c->gone(c, err);
}

/* Returns false if the connection was closed. */
static bool flush(struct rsk_control_conn *c)
{
	while (c->out_from != c->out_to) {
		ssize_t n = rsk_sys_sendto(c->watch.fd, c->out + c->out_from,
					   c->out_to - c->out_from, MSG_DONTWAIT | MSG_NOSIGNAL,
					   NULL, 0);

		if (n == -EAGAIN || n == -EINTR)
			break;
		if (n <= 0) {
			lost(c, n ? (int)n : -EPIPE);
			return false;
		}
		c->out_from += (size_t)n;
	}
	if (c->out_from == c->out_to)
		c->out_from = c->out_to = 0;
	interest(c);
	return true;
}

/* The space of sent bytes is used again, also when the other end never empties the queue. */
static void compact(struct rsk_control_conn *c)
{
	if (c->out_from < c->out_room / 2)
		return;
	memmove(c->out, c->out + c->out_from, c->out_to - c->out_from);
	c->out_to -= c->out_from;
	c->out_from = 0;
}

bool rsk_control_conn_send(struct rsk_control_conn *c, struct rsk_remote_msg *m)
{
	if (c->watch.fd < 0)
		return false;
	if (c->out_from && c->out_to + sizeof(*m) > c->out_room)
		compact(c);
	if (c->out_to + sizeof(*m) > c->out_room) {
		size_t room = c->out_room ? 2 * c->out_room : 16 * sizeof(*m);
		uint8_t *more = room <= OUT_LIMIT ? realloc(c->out, room) : NULL;

		if (!more && c->corked)
			c->corked_err = -ENOBUFS;
		else if (!more)
			lost(c, -ENOBUFS);
		if (!more)
			return false;
		c->out = more;
		c->out_room = room;
	}
	m->magic = RSK_REMOTE_MAGIC;
	memcpy(c->out + c->out_to, m, sizeof(*m));
	c->out_to += sizeof(*m);
	return c->corked || c->connecting || flush(c);
}

void rsk_control_conn_cork(struct rsk_control_conn *c)
{
	c->corked = true;
}

bool rsk_control_conn_uncork(struct rsk_control_conn *c)
{
	int err = c->corked_err;

	c->corked = false;
	c->corked_err = 0;
	if (c->watch.fd < 0)
		return false;
	if (err < 0) {
		lost(c, err);
		return false;
	}
	return c->connecting || flush(c);
}

static int connected(struct rsk_control_conn *c)
{
	int err = 0;
	socklen_t len = sizeof(err);

	c->connecting = false;
	rsk_sys_getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return -err;
}

/*
 * True if the message that is being received is of another version, whose messages may be shorter
 * than ours.
 */
static bool is_other_version(struct rsk_control_conn *c)
{
	struct rsk_remote_msg m = c->in;

	if (c->in_bytes < RSK_REMOTE_FIXED_BYTES || !rsk_remote_msg_other_version(&m))
		return false;
	rsk_control_conn_pause(c, true);
	c->other_version(c, &m);
	return true;
}

static void receive(struct rsk_control_conn *c)
{
	for (int i = 0; i < MESSAGES_AT_ONCE && c->watch.fd >= 0 && !c->paused; i++) {
		struct rsk_remote_msg m;
		ssize_t n = rsk_sys_recvfrom(c->watch.fd, (uint8_t *)&c->in + c->in_bytes,
					     sizeof(c->in) - c->in_bytes, MSG_DONTWAIT, NULL, NULL);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0) {
			lost(c, n ? (int)n : -EPIPE);
			return;
		}
		c->in_bytes += (size_t)n;
		if (is_other_version(c))
			return;
		if (c->in_bytes < sizeof(c->in))
			continue;
		m = c->in;
		c->in_bytes = 0;
		if (rsk_remote_msg_check(&m) < 0) {
			lost(c, -EPROTO);
			return;
		}
		c->message(c, &m);
	}
}

static void ready(struct rsk_watch *w, uint32_t events)
{
	struct rsk_control_conn *c = (struct rsk_control_conn *)(void *)w;
	int err = 0;

	if (c->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		err = connected(c);
	if (err < 0) {
		lost(c, err);
		return;
	}
	if (!flush(c))
		return;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
}

int rsk_control_conn_open(struct rsk_control_conn *c, int fd, bool connecting)
{
	static const struct {
		int level, name, value;
	} option[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT },
	};
	int rc;

	for (size_t i = 0; i < sizeof(option) / sizeof(option[0]); i++)
		rsk_sys_setsockopt(fd, option[i].level, option[i].name, &option[i].value,
				   sizeof(option[i].value));
	c->watch = (struct rsk_watch){ .fd = fd, .ready = ready };
	c->connecting = connecting;
	rc = rsk_progress_watch(&c->watch, connecting ? EPOLLOUT : EPOLLIN, true);
	if (rc < 0)
		rsk_control_conn_close(c);
	return rc;
}

void rsk_control_conn_close(struct rsk_control_conn *c)
{
	if (c->watch.fd >= 0) {
		rsk_progress_unwatch(&c->watch);
		rsk_own_close(c->watch.fd);
	}
	c->watch.fd = -1;
	free(c->out);
	c->out = NULL;
	c->out_from = c->out_to = c->out_room = c->in_bytes = 0;
}

void rsk_control_conn_pause(struct rsk_control_conn *c, bool pause)
{
	if (c->watch.fd < 0 || c->paused == pause)
		return;
	c->paused = pause;
	interest(c);
}

void rsk_control_conn_keep(struct rsk_control_conn *c, bool keep)
{
	int on = keep;

	if (c->watch.fd >= 0)
		rsk_sys_setsockopt(c->watch.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

bool rsk_control_conn_empty(const struct rsk_control_conn *c)
{
	int left = 0;

	return c->watch.fd < 0 || (c->out_from == c->out_to && !c->connecting &&
				   (rsk_sys_ioctl(c->watch.fd, SIOCOUTQ, &left) < 0 || !left));
}
