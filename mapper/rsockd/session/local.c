// SPDX-License-Identifier: BSD-2-Clause
/*
 * local.c - see local.h: the socket, the connected processes, and their messages. local_user.c
 * limits what a user's processes may take up; local_rendezvous.c handles peer lookups.
 */
#include "local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "clock.h"
#include "fdmsg.h"
#include "first_contact.h"
#include "local_msg.h"
#include "local_parts.h"
#include "say.h"
#include "tuple.h"
#include "unix_listen.h"
#include "user.h"

#define BACKLOG 1024
#define MESSAGES_AT_ONCE 64
#define MEASURE_S 1
#define GUESTS_AT_ONCE 16
#define PAUSE_US 100000
#define LATER_US 4000
#define AGAIN_AT_ONCE 16

/* ---- processes ---- */

/*
 * Of a short stream the accepting end does not know its ports, so the connecting end's process
 * reports it.
 */
static void stream_ended(void *ctx, uint32_t uid, bool connecting, uint16_t service_port,
			 uint64_t bytes)
{
	rsk_pma_measured(ctx, uid, service_port, bytes);
}

static void stream_carried(void *ctx, uint32_t uid, bool connecting, uint16_t service_port,
			   uint64_t transactions, uint64_t now_ns)
{
	rsk_pma_transactions(ctx, uid, connecting ? RSK_PMA_CP : RSK_PMA_AP, service_port,
			     transactions, now_ns);
}

static void bye(struct rsk_local *l, struct rsk_local_process *p)
{
	rsk_local_lookup_over(p);
	rsk_rendezvous_table_gone(&l->rendezvous, p->number);
	rsk_syn_ends_gone(&l->syn_ends, p->number, p->uid);
	l->elsewhere -= p->elsewhere;
	rsk_local_rails_gone(l, p);
	rsk_port_tables_gone(&l->port_tables, p);
	rsk_listener_watches_gone(&l->listener_watches, p->number);
	rsk_streams_put(&l->streams, p->segment, rsk_clock_ns());
	HASH_DEL(l->processes, p);
	p->user->n--;
	if (p->is_put_off)
		DL_DELETE(p->user->put_off, p);
	if (p->event)
		event_free(p->event);
	rsk_fdmsg_close(p->fd, NULL);
	free(p->cgroup);
	free(p);
}

size_t rsk_local_processes(const struct rsk_local *l)
{
	return HASH_COUNT(l->processes);
}

/* ---- their messages ---- */

static void hello(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m,
		  int fd)
{
	rsk_local_able(l, p, m->flags & RSK_LOCAL_ABLE);
	if (p->able)
		rsk_port_tables_join(&l->port_tables, p);
	if (fd < 0 || p->segment)
		return;
	p->segment = rsk_streams_take(&l->streams, fd, p->uid, rsk_clock_ns());
}

static void listens(struct rsk_local *l, struct rsk_local_process *p, const struct rsk_local_msg *m)
{
	struct rsk_pm_addr at = { .port = m->tuple.local_port,
				  .ipv = m->tuple.family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6 };

	memcpy(at.ip, m->tuple.local, sizeof(at.ip));
	if (rsk_listener_watches_add(&l->listener_watches, p->number, p->uid, &at, m->cookie) ==
	    -ENOSPC)
		l->count.listens_refused++;
}

static void on_message(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_local_msg *m, int fd)
{
	switch (m->type) {
	case RSK_LOCAL_HELLO:
		hello(l, p, m, fd);
		break;
	case RSK_LOCAL_LOOKUP:
		rsk_local_lookup(l, p, m);
		break;
	case RSK_LOCAL_RESOLVE:
		rsk_local_resolve(l, p, m);
		break;
	case RSK_LOCAL_LISTEN:
		listens(l, p, m);
		break;
	case RSK_LOCAL_LOST:
		rsk_rendezvous_table_link_lost(&l->rendezvous, p->number, m->link);
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
		break; /* rsk_local_msg_check() refuses all others */
	}
}

/*
 * Stops reading from the process until its user has time again. Its messages wait in the kernel,
 * and then in the process.
 */
static void put_off(struct rsk_local *l, struct rsk_local_process *p)
{
	static const struct timeval later = { .tv_usec = LATER_US };

	l->count.put_off++;
	event_del(p->event);
	p->is_put_off = true;
	DL_APPEND(p->user->put_off, p);
	if (!evtimer_pending(l->later, NULL))
		event_add(l->later, &later);
}

static void listen_again(struct rsk_local_process *p)
{
	p->is_put_off = false;
	DL_DELETE(p->user->put_off, p);
	if (event_add(p->event, NULL) < 0)
		bye(p->l, p);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval later = { .tv_usec = LATER_US };
	struct rsk_local *l = arg;
	uint64_t now = rsk_clock_ns();
	bool more = false;

	for (struct rsk_local_user *u = l->users; u; u = u->hh.next) {
		for (int i = 0; i < AGAIN_AT_ONCE && u->put_off && rsk_local_user_has_share(u, now);
		     i++)
			listen_again(u->put_off);
		more |= u->put_off != NULL;
	}
	if (more)
		event_add(l->later, &later);
}

/* Said, so that its streams have the reason; it tries again from time to time. */
static void refuse_version(struct rsk_local *l, const struct rsk_local_process *p,
			   const struct rsk_local_msg *m)
{
	int *said = &l->said_versions[(unsigned int)p->pid % RSK_LOCAL_SAID_VERSIONS];

	l->count.other_version++;
	rsk_local_msg_refuse_version(p->fd);
	if (*said == (int)p->pid)
		return; /* it tries again and again */
	*said = (int)p->pid;
	rsk_say("process %d: its librsock.so speaks version %u, this rsockd %d: restart it after "
		"an upgrade",
		(int)p->pid, rsk_magic_version(m->magic, RSK_LOCAL_LETTERS), RSK_LOCAL_VERSION);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local_process *p = arg;
	struct rsk_local *l = p->l;
	struct rsk_local_user *user = p->user;
	uint64_t began_ns;

	if (!rsk_local_user_has_share(user, rsk_clock_ns())) {
		put_off(l, p);
		return;
	}
	began_ns = rsk_local_worked_ns();
	for (int i = 0; i < MESSAGES_AT_ONCE && user->left_ns > 0; i++) {
		struct rsk_local_msg m;
		int with, rc = rsk_local_msg_recv(fd, false, &m, &with);

		if (rc == -EAGAIN)
			break;
		if (rc <= 0) {
			if (rc == -EPROTONOSUPPORT)
				refuse_version(l, p, &m);
			l->count.refused += rc == -EPROTO;
			l->streams.refused += rc == -EBADMSG;
			user->foreign += rc == -EBADMSG;
			bye(l, p);
			rsk_local_user_charge(user, began_ns);
			break;
		}
		on_message(l, p, &m, with);
		if (with >= 0)
			close(with);
		began_ns = rsk_local_user_charge(user, began_ns);
	}
	l->agent->after(l->agent->ctx);
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
	if (!rsk_local_user_room(l, who.uid, &user))
		return -EBUSY;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	do {
		p->number = ++l->next_number;
	} while (!p->number || p->number == RSK_LISTENER_WATCHES_FORMER ||
		 rsk_local_process(l, p->number));
	p->l = l;
	p->fd = fd;
	p->pid = who.pid;
	p->netns = rsk_netns_of_fd(fd);
	/* All users that the kernel cannot name count as one user. */
	p->uid = rsk_user_is_one(who.uid) ? who.uid : RSK_PMA_NOBODY;
	p->event = event_new(l->base, fd, EV_READ | EV_PERSIST, on_readable, p);
	if (!p->event || event_add(p->event, NULL) < 0) {
		if (p->event)
			event_free(p->event);
		free(p);
		return -ENOMEM;
	}
	rsk_local_vouch_learn(p);
	p->user = user;
	user->n++;
	HASH_ADD(hh, l->processes, number, sizeof(p->number), p);
	l->count.hellos++;
	return 0;
}

/* Stops accepting for a while; otherwise the loop would call on_accept() again at once. */
static void pause_for(struct rsk_local *l, int error)
{
	static const struct timeval later = { .tv_usec = PAUSE_US };

	l->count.paused++;
	rsk_say("no process can be taken: %s", strerror(error));
	if (event_add(l->resume, &later) == 0)
		event_del(l->event);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local *l = arg;

	event_add(l->event, NULL);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local *l = arg;

	/* Bounded, so that processes that connect all the time do not stop the loop. */
	for (int i = 0; i < GUESTS_AT_ONCE; i++) {
		int guest;

		if (rsk_fdmsg_is_full()) {
			pause_for(l, EMFILE);
			return;
		}
		guest = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (guest < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				pause_for(l, errno);
			return;
		}
		if (admit(l, guest) < 0) {
			l->count.refused++;
			rsk_fdmsg_close(guest, NULL);
		}
	}
}

/* The network namespace of this process, which never changes. */
static uint64_t own_netns(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t netns = fd >= 0 ? rsk_netns_of_fd(fd) : 0;

	if (fd >= 0)
		close(fd);
	return netns;
}

/* ---- once a second ---- */

static void on_measure(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_local *l = arg;
	size_t unused = rsk_sessions_expire(&l->sessions, rsk_clock_ns());

	rsk_streams_read(&l->streams, rsk_clock_ns());
	rsk_pma_period(l->agent->pma, rsk_clock_ns());
	l->count.unused += unused;
	if (l->sessions.n)
		rsk_agent_measure(l->agent, rsk_clock_ns());
	rsk_local_qos_sweep(l);
	for (struct rsk_local_process *p = unused ? l->processes : NULL; p; p = p->hh.next)
		rsk_local_lookup_on(l, p);
	rsk_local_users_forgive(l);
	rsk_local_users_forget(l);
	rsk_listener_watches_sweep(&l->listener_watches);
	rsk_listener_watches_write(&l->listener_watches);
	rsk_port_tables_check(&l->port_tables);
}

static int measure_from_now_on(struct rsk_local *l)
{
	static const struct timeval each = { .tv_sec = MEASURE_S };

	l->measure = event_new(l->base, -1, EV_PERSIST, on_measure, l);
	return l->measure && event_add(l->measure, &each) == 0 ? 0 : -ENOMEM;
}

int rsk_local_reloaded(struct rsk_local *l)
{
	rsk_local_qos_sweep(l);
	rsk_local_apart_reloaded(l);
	return rsk_first_contact_write(l->first, l->settings, l->apart);
}

int rsk_local_open(struct rsk_local *l, struct event_base *base, const struct rsk_map_client *maps,
		   const char *path, size_t max)
{
	int rc;

	/* A process may use two descriptors: its connection and its statistics. */
	*l = (struct rsk_local){ .base = base,
				 .agent = maps->agent,
				 .maps = maps,
				 .settings = maps->settings,
				 .fd = -1,
				 .first = -1,
				 .max = max - max / 3,
				 .streams = { .max = max / 3,
					      .ended = stream_ended,
					      .carried = stream_carried,
					      .ctx = maps->agent->pma } };
	l->netns = own_netns();
	rsk_numa_read(RSK_NUMA_NODES, &l->numa);
	rsk_local_rails_open(l);
	rsk_port_tables_open(&l->port_tables, l->agent->pma);
	l->fd = rsk_unix_listen(path, SOCK_SEQPACKET, BACKLOG);
	if (l->fd < 0)
		return l->fd;
	rc = rsk_listener_watches_open(&l->listener_watches, &l->listeners, path);
	if (rc < 0)
		return rc;
	l->first = rsk_first_contact_open(path);
	if (l->first < 0)
		return l->first;
	rc = rsk_local_reloaded(l);
	if (rc < 0)
		return rc;
	l->event = event_new(base, l->fd, EV_READ | EV_PERSIST, on_accept, l);
	l->resume = evtimer_new(base, on_resume, l);
	l->later = evtimer_new(base, on_later, l);
	if (!l->event || !l->resume || !l->later || event_add(l->event, NULL) < 0)
		return -ENOMEM;
	return measure_from_now_on(l);
}

void rsk_local_close(struct rsk_local *l)
{
	struct rsk_local_user *u, *next;

	if (!l->agent)
		return;
	if (l->listener_watches.table)
		rsk_listener_watches_write(
			&l->listener_watches); /* with all processes still connected */
	while (l->processes)
		bye(l, l->processes);
	u = l->users;
	HASH_CLEAR(hh, l->users); /* its entries are still linked as a list */
	for (; u; u = next) {
		next = u->hh.next;
		free(u);
	}
	rsk_local_rails_close(l);
	rsk_port_tables_close(&l->port_tables);
	if (l->event)
		event_free(l->event);
	if (l->resume)
		event_free(l->resume);
	if (l->later)
		event_free(l->later);
	if (l->measure)
		event_free(l->measure);
	if (l->fd >= 0)
		close(l->fd);
	if (l->first >= 0)
		close(l->first);
	rsk_rendezvous_table_fini(&l->rendezvous);
	rsk_syn_ends_fini(&l->syn_ends);
	rsk_listener_watches_close(&l->listener_watches);
	rsk_listeners_fini(&l->listeners);
	rsk_streams_fini(&l->streams);
	l->agent = NULL;
}
