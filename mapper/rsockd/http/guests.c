// SPDX-License-Identifier: BSD-2-Clause
/* guests.c - see guests.h. */
#include "guests.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "owner.h"
#include "say.h"
#include "tuple.h"
#include "user.h"

#define PAUSE_US 100000

/*
 * The owner of a connection: a user of this host, or an address. No hidden padding, since it is
 * compared.
 */
struct key {
	uint64_t is_user, uid;
	uint8_t ip[16];
};

/* If the descriptor has another cookie, it belongs to another socket: the connection is closed. */
struct guest {
	int fd;
	uint64_t cookie;
	struct key key;
};

struct rsk_guests {
	struct event_base *base;
	struct evconnlistener *listener;
	struct event *look, *resume;
	/* owned by the server; accepted in this round of the loop */
	struct bufferevent *fresh[RSK_GUESTS_AT_ONCE];
	size_t n_fresh, n;
	struct guest at[RSK_GUESTS_MOST];
	uint64_t refused, paused;
};

/* ---- owners and limits ---- */

static struct key key_of(int fd)
{
	struct key key = { 0 };
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);
	struct rsk_tuple tuple;
	struct rsk_owner owner;
	struct sockaddr_storage sa = { 0 };
	socklen_t sa_len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &sa_len) == 0 && sa.ss_family == AF_UNIX) {
		key.is_user = 1;
		key.uid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 ? who.uid :
										     UINT32_MAX;
		return key;
	}
	if (rsk_tuple_from_fd(fd, &tuple) < 0)
		return key;
	memcpy(key.ip, tuple.peer, sizeof(key.ip));
	tuple = rsk_tuple_mirror(&tuple);
	if (rsk_owner_lookup(&tuple, &owner) == 0)
		key = (struct key){ .is_user = 1, .uid = owner.uid };
	return key;
}

static bool has_reserve(const struct key *key)
{
	uid_t uid = (uid_t)key->uid;

	return key->is_user && (rsk_user_same(uid, 0) || rsk_user_same(uid, geteuid()));
}

static void drop_gone(struct rsk_guests *g)
{
	for (size_t i = g->n; i-- > 0;)
		if (rsk_cookie_of(g->at[i].fd) != g->at[i].cookie)
			g->at[i] = g->at[--g->n];
}

static bool room_for(const struct rsk_guests *g, const struct key *key)
{
	size_t most = has_reserve(key) ? RSK_GUESTS_MOST : RSK_GUESTS_MOST - RSK_GUESTS_RESERVE;
	size_t same = 0;

	for (size_t i = 0; i < g->n; i++)
		same += memcmp(&g->at[i].key, key, sizeof(*key)) == 0;
	return g->n < most && (same < RSK_GUESTS_OF_ONE || has_reserve(key));
}

/* ---- accepting ---- */

/* A refused connection is shut down; the server reads its end in the next round and closes it. */
static void look_at(struct rsk_guests *g, int fd)
{
	struct key key = key_of(fd);

	if (room_for(g, &key)) {
		g->at[g->n++] = (struct guest){ .fd = fd, .cookie = rsk_cookie_of(fd), .key = key };
		return;
	}
	g->refused++;
	shutdown(fd, SHUT_RDWR);
}

/* Runs before the loop reads from any of them. */
static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_guests *g = arg;

	drop_gone(g);
	for (size_t i = 0; i < g->n_fresh; i++)
		if (bufferevent_getfd(g->fresh[i]) >= 0)
			look_at(g, bufferevent_getfd(g->fresh[i]));
	g->n_fresh = 0;
	if (!evtimer_pending(g->resume, NULL))
		evconnlistener_enable(g->listener);
}

/* The server's listener has accepted a connection, and asks for its bufferevent. */
static struct bufferevent *on_accepted(struct event_base *base, void *arg)
{
	struct rsk_guests *g = arg;
	struct bufferevent *b = bufferevent_socket_new(base, -1, 0);

	if (!b)
		return NULL;
	g->fresh[g->n_fresh++] = b;
	if (g->n_fresh == RSK_GUESTS_AT_ONCE)
		evconnlistener_disable(g->listener);
	event_active(g->look, EV_TIMEOUT, 0);
	return b;
}

/* Stops accepting for a while; otherwise the loop would come here again at once. */
static void on_error(struct evconnlistener *listener, void *arg)
{
	static const struct timeval later = { .tv_usec = PAUSE_US };
	struct rsk_guests *g = arg;
	int error = errno;

	g->paused++;
	rsk_say("no connection can be taken: %s", strerror(error));
	if (event_add(g->resume, &later) == 0)
		evconnlistener_disable(g->listener);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_guests *g = arg;

	evconnlistener_enable(g->listener);
}

/* ---- start and end ---- */

struct rsk_guests *rsk_guests_new(struct evhttp *http, struct evhttp_bound_socket *bound)
{
	struct rsk_guests *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->listener = evhttp_bound_socket_get_listener(bound);
	g->base = evconnlistener_get_base(g->listener);
	g->look = event_new(g->base, -1, 0, on_look, g);
	g->resume = evtimer_new(g->base, on_resume, g);
	if (!g->look || !g->resume) {
		rsk_guests_free(g);
		return NULL;
	}
	evhttp_set_bevcb(http, on_accepted, g);
	evconnlistener_set_error_cb(g->listener, on_error);
	return g;
}

void rsk_guests_free(struct rsk_guests *g)
{
	if (!g)
		return;
	if (g->look)
		event_free(g->look);
	if (g->resume)
		event_free(g->resume);
	free(g);
}

struct rsk_guests_figures rsk_guests_figures(struct rsk_guests *g)
{
	if (!g)
		return (struct rsk_guests_figures){ 0 };
	drop_gone(g);
	return (struct rsk_guests_figures){ .n = g->n, .refused = g->refused, .paused = g->paused };
}
