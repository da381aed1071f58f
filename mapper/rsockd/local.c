// SPDX-License-Identifier: BSD-2-Clause
/* local.c - see local.h: the socket, the processes at it, and what they say. Who seeks is taken on in seek.c. */
#include "local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "first.h"
#include "local_msg.h"
#include "local_parts.h"
#include "tuple.h"
#include "unix_listen.h"
#include "user.h"

#define BACKLOG 1024
#define MESSAGES_AT_ONCE 64
#define MEASURE_S 1
#define SWEEP_S 10
#define GUESTS_AT_ONCE 16

/* ---- processes ---- */

/* A process of a hostile user must not keep others out. */
static bool room_for(struct rsk_local *l, uint32_t uid, struct rsk_local_user **user)
{
	struct rsk_local_user *u;

	HASH_FIND(hh, l->users, &uid, sizeof(uid), u);
	*user = u;
	if (HASH_COUNT(l->processes) >= l->max || (u && u->n >= l->max / 2))
		return false;
	if (u)
		return true;
	u = calloc(1, sizeof(*u));
	if (!u)
		return false;
	u->uid = uid;
	HASH_ADD(hh, l->users, uid, sizeof(uid), u);
	*user = u;
	return true;
}

/* An accepting end's name is not known of a short stream: the connecting end's process tells of the service. */
static void stream_ended(void *ctx, uint32_t uid, uint16_t local_port, uint16_t peer_port,
			 uint64_t bytes)
{
	struct rsk_pma *pma = ctx;

	if (!peer_port || rsk_pma_measured(pma, uid, peer_port, bytes) < 0)
		rsk_pma_measured(pma, uid, local_port, bytes);
}

void rsk_local_bye(struct rsk_local *l, struct rsk_local_process *p)
{
	rsk_local_seek_no_more(p);
	rsk_meeting_gone(&l->meeting, p->number);
	rsk_local_rails_gone(l, p);
	rsk_boards_gone(&l->boards, p);
	rsk_hearers_gone(&l->hearers, p->number);
	rsk_streams_put(&l->streams, p->segment, rsk_udp_now_ns());
	HASH_DEL(l->processes, p);
	if (--p->user->n == 0) {
		HASH_DEL(l->users, p->user);
		free(p->user);
	}
	if (p->event)
		event_free(p->event);
	close(p->fd);
	free(p);
}

/* A full queue is for its process to read. */
bool rsk_local_tell(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_msg *m,
		    int fd)
{
	int rc = rsk_local_msg_send(p->fd, m, fd);

	if (rc < 0 && rc != -EAGAIN)
		shutdown(p->fd, SHUT_RDWR); /* its event comes, and takes it away */
	return rc == 0;
}

struct rsk_local_process *rsk_local_process(const struct rsk_local *l, uint32_t number)
{
	struct rsk_local_process *p;

	HASH_FIND(hh, l->processes, &number, sizeof(number), p);
	return p;
}

size_t rsk_local_processes(const struct rsk_local *l)
{
	return HASH_COUNT(l->processes);
}

/* ---- what they say ---- */

static void hello(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m,
		  int fd)
{
	rsk_local_able(l, p, m->flags & RSK_LOCAL_ABLE);
	if (p->able)
		rsk_boards_join(&l->boards, p);
	if (fd < 0 || p->segment)
		return;
	p->segment = rsk_streams_take(&l->streams, fd, p->uid, rsk_udp_now_ns());
}

static void on_message(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_local_msg *m, int fd)
{
	switch (m->type) {
	case RSK_LOCAL_HELLO:
		hello(l, p, m, fd);
		break;
	case RSK_LOCAL_SEEK:
		rsk_local_seek(l, p, m);
		break;
	case RSK_LOCAL_ASK:
		rsk_local_ask(l, p, m);
		break;
	case RSK_LOCAL_LISTEN:
		rsk_hearers_add(&l->hearers, p->number, p->uid, m->cookie);
		break;
	case RSK_LOCAL_LOST:
		rsk_meeting_link_lost(&l->meeting, p->number, m->link);
		break;
	case RSK_LOCAL_RDMA:
		rsk_local_rdma(l, p, m);
		break;
	case RSK_LOCAL_LINK:
		rsk_local_link(l, p, m);
		break;
	case RSK_LOCAL_UNLINK:
		rsk_local_unlink(l, p, m);
		break;
	default:
		break; /* no other passes rsk_local_msg_check() */
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local_process *p = arg;
	struct rsk_local *l = p->l;

	for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
		struct rsk_local_msg m;
		int with, rc = rsk_local_msg_recv(fd, false, &m, &with);

		if (rc == -EAGAIN)
			break;
		if (rc <= 0) {
			l->count.refused += rc == -EPROTO;
			rsk_local_bye(l, p);
			break;
		}
		on_message(l, p, &m, with);
		if (with >= 0)
			close(with);
	}
	rsk_daemon_arm(l->d);
}

/* ---- the socket ---- */

static int admit(struct rsk_local *l, int fd)
{
	struct rsk_local_process *p;
	struct rsk_local_user *user;
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return -errno;
	if (!room_for(l, who.uid, &user))
		return -EBUSY;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	do {
		p->number = ++l->next_number;
	} while (!p->number || p->number == RSK_HEARERS_FORMER || rsk_local_process(l, p->number));
	p->l = l;
	p->fd = fd;
	p->pid = who.pid;
	/* Whom the kernel does not name is the same user as nobody. */
	p->uid = rsk_user_is_one(who.uid) ? who.uid : RSK_PMA_NOBODY;
	p->event = event_new(l->d->base, fd, EV_READ | EV_PERSIST, on_readable, p);
	if (!p->event || event_add(p->event, NULL) < 0) {
		if (p->event)
			event_free(p->event);
		free(p);
		return -ENOMEM;
	}
	p->user = user;
	user->n++;
	HASH_ADD(hh, l->processes, number, sizeof(p->number), p);
	l->count.hellos++;
	return 0;
}

static void on_knock(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local *l = arg;

	/* Those who knock without end must not keep us here. */
	for (int i = 0; i < GUESTS_AT_ONCE; i++) {
		int guest = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (guest < 0)
			return;
		if (admit(l, guest) < 0) {
			l->count.refused++;
			close(guest);
		}
	}
}

/* Of this process, which is in one network namespace for good. */
static uint64_t own_netns(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t netns = fd >= 0 ? rsk_netns_of_fd(fd) : 0;

	if (fd >= 0)
		close(fd);
	return netns;
}

/* ---- what is measured ---- */

static void on_measure(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local *l = arg;
	size_t unused = rsk_sessions_expire(&l->sessions, rsk_udp_now_ns());

	rsk_streams_read(&l->streams, rsk_udp_now_ns());
	l->count.unused += unused;
	for (struct rsk_local_process *p = unused ? l->processes : NULL; p; p = p->hh.next)
		rsk_local_seek_on(l, p);
	if (++l->seconds % SWEEP_S == 0)
		rsk_hearers_sweep(&l->hearers);
	rsk_hearers_write(&l->hearers);
	rsk_boards_look(&l->boards);
}

static int measure_from_now_on(struct rsk_local *l)
{
	static const struct timeval each = { .tv_sec = MEASURE_S };

	l->measure = event_new(l->d->base, -1, EV_PERSIST, on_measure, l);
	return l->measure && event_add(l->measure, &each) == 0 ? 0 : -ENOMEM;
}

int rsk_local_reloaded(struct rsk_local *l)
{
	return rsk_first_write(l->first, &l->d->settings);
}

int rsk_local_open(struct rsk_local *l, struct rsk_daemon *d, const char *path, size_t max)
{
	int rc;

	/* Of each process there may be two descriptors: its connection, and its statistics. */
	*l = (struct rsk_local){ .d = d,
				 .fd = -1,
				 .first = -1,
				 .max = max - max / 3,
				 .streams = {
					 .max = max / 3, .ended = stream_ended, .ctx = d->pma } };
	l->netns = own_netns();
	rsk_local_rails_open(l);
	rsk_boards_open(&l->boards, d->pma);
	l->fd = rsk_unix_listen(path, SOCK_SEQPACKET, BACKLOG);
	if (l->fd < 0)
		return l->fd;
	rc = rsk_hearers_open(&l->hearers, &l->listeners, path);
	if (rc < 0)
		return rc;
	l->first = rsk_first_open(path);
	if (l->first < 0)
		return l->first;
	rc = rsk_local_reloaded(l);
	if (rc < 0)
		return rc;
	l->event = event_new(d->base, l->fd, EV_READ | EV_PERSIST, on_knock, l);
	if (!l->event || event_add(l->event, NULL) < 0)
		return -ENOMEM;
	return measure_from_now_on(l);
}

void rsk_local_close(struct rsk_local *l)
{
	if (!l->d)
		return;
	if (l->hearers.table)
		rsk_hearers_write(&l->hearers); /* as it was while they were all there */
	while (l->processes)
		rsk_local_bye(l, l->processes);
	rsk_local_rails_close(l);
	rsk_boards_close(&l->boards);
	if (l->event)
		event_free(l->event);
	if (l->measure)
		event_free(l->measure);
	if (l->fd >= 0)
		close(l->fd);
	if (l->first >= 0)
		close(l->first);
	rsk_meeting_fini(&l->meeting);
	rsk_hearers_close(&l->hearers);
	rsk_listeners_fini(&l->listeners);
	rsk_streams_fini(&l->streams);
	l->d = NULL;
}
