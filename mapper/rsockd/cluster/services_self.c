// SPDX-License-Identifier: BSD-2-Clause
/* services_self.c - see services_self.h. */
#include "services_self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pma_offer.h"

#define HOLD_NS 5000000000ull
/* Addresses of sockets of which policy is asked each time, which takes some milliseconds */
#define CONSIDERED_MOST 4096u

/* A socket, and how many of its user's come before it. */
struct listening {
	struct rsk_pma_socket is;
	uint32_t rank;
};

/* A service, and when policy has mapped it last; 0: it lacks resources. */
struct found {
	struct rsk_service is;
	uint64_t ok_ns;
	size_t order; /* in which it was found */
};

/* What one look finds. */
struct look {
	const struct rsk_services_self *s;
	uint64_t now_ns;
	struct listening *sockets; /* owned, with room for all listeners */
	struct found *all;	   /* owned, with room for CONSIDERED_MOST */
	size_t n_sockets, n, considered;
	uint64_t left_out;
};

/* ---- whose turn it is ---- */

static int compare_addresses(const struct rsk_pm_addr *x, const struct rsk_pm_addr *y)
{
	int order = (int)x->ipv - y->ipv;

	if (!order)
		order = memcmp(x->ip, y->ip, 16);
	return order ? order : (int)x->port - y->port;
}

static int by_user(const void *a, const void *b)
{
	const struct rsk_pma_socket *x = &((const struct listening *)a)->is,
				    *y = &((const struct listening *)b)->is;
	int order = (x->uid > y->uid) - (x->uid < y->uid);

	return order ? order : compare_addresses(&x->at, &y->at);
}

static int by_rank(const void *a, const void *b)
{
	const struct listening *x = a, *y = b;
	int order = (x->rank > y->rank) - (x->rank < y->rank);

	return order ? order : by_user(a, b);
}

static void on_listener(void *ctx, const struct rsk_listener *is)
{
	struct look *l = ctx;

	l->sockets[l->n_sockets++].is = (struct rsk_pma_socket){ .at = is->at, .uid = is->uid };
}

/*
 * The users take turns, each with its sockets by address: one who listens on very many ports takes
 * no place of another's. Of sockets that share an address (SO_REUSEPORT) one is enough.
 */
static void take_turns(struct look *l)
{
	size_t n = 0;

	qsort(l->sockets, l->n_sockets, sizeof(*l->sockets), by_user);
	for (size_t i = 0; i < l->n_sockets; i++) {
		struct listening *at = &l->sockets[i], *before = n ? &l->sockets[n - 1] : NULL;
		bool same = before && before->is.uid == at->is.uid;

		if (same && !compare_addresses(&before->is.at, &at->is.at))
			continue;
		at->rank = same ? before->rank + 1 : 0;
		l->sockets[n++] = *at;
	}
	l->n_sockets = n;
	qsort(l->sockets, n, sizeof(*l->sockets), by_rank);
}

/* ---- of one socket ---- */

static void on_offer(void *ctx, const struct rsk_pma_offer *offer)
{
	struct look *l = ctx;
	struct found *f = &l->all[l->n];

	if (!rsk_pm_addr_is_for_others(&offer->at) ||
	    (!offer->is_short && !rsk_pm_addr_is_for_others(&offer->rdma)))
		return;
	if (l->n == CONSIDERED_MOST) {
		l->left_out++;
		return;
	}
	*f = (struct found){ .is = { .at = offer->at, .rdma = offer->rdma }, .order = l->n };
	rsk_service_put_text(f->is.name, sizeof(f->is.name), offer->service);
	if (!offer->is_short) {
		rsk_service_put_text(f->is.device, sizeof(f->is.device), offer->device);
		f->ok_ns = l->now_ns;
	}
	l->n++;
}

static void consider(struct look *l, const struct rsk_pma_socket *is)
{
	if (l->considered >= CONSIDERED_MOST)
		l->left_out++;
	else
		l->considered += rsk_pma_offers(l->s->from.pma, is, l->now_ns, on_offer, l);
}

/* ---- all of them ---- */

/* By address; of the same address the one that is mapped is first. */
static int in_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int order = compare_addresses(&x->is.at, &y->is.at);

	return order ? order : (y->ok_ns != 0) - (x->ok_ns != 0);
}

static int as_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* The number of that service in the entry as it was, or SIZE_MAX. */
static size_t former(const struct rsk_services_self *s, const struct rsk_pm_addr *at)
{
	for (size_t i = 0; i < s->entry.n; i++)
		if (rsk_pm_addr_equal(&s->entry.services[i].at, at))
			return i;
	return SIZE_MAX;
}

static void put_time(char to[static RSK_SERVICE_NAME])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || !strftime(to, RSK_SERVICE_NAME, "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(to, RSK_SERVICE_NAME, "unknown");
}

/* False: it lacks resources, and is not offered any more. */
static bool carry_over(const struct rsk_services_self *s, struct found *f, uint64_t now_ns)
{
	size_t was = former(s, &f->is.at);

	if (!f->ok_ns) {
		if (was == SIZE_MAX || now_ns - s->ok_ns[was] >= HOLD_NS)
			return false;
		f->is = s->entry.services[was];
		f->ok_ns = s->ok_ns[was];
		return true;
	}
	if (was == SIZE_MAX)
		put_time(f->is.since);
	else
		memcpy(f->is.since, s->entry.services[was].since, sizeof(f->is.since));
	return true;
}

/* Keeps each address once, and of too many those that were found first; sorted by address. */
static void choose(struct look *l)
{
	size_t n = 0, first = 0;

	qsort(l->all, l->n, sizeof(*l->all), in_order);
	for (size_t i = 0; i < l->n; i++) {
		if (i && rsk_pm_addr_equal(&l->all[i].is.at, &l->all[first].is.at))
			continue;
		first = i;
		if (carry_over(l->s, &l->all[i], l->now_ns))
			l->all[n++] = l->all[i];
	}
	if (n > RSK_SERVICE_MOST) {
		qsort(l->all, n, sizeof(*l->all), as_found);
		l->left_out += n - RSK_SERVICE_MOST;
		n = RSK_SERVICE_MOST;
		qsort(l->all, n, sizeof(*l->all), in_order);
	}
	l->n = n;
}

int rsk_services_self_update(struct rsk_services_self *s, uint64_t now_ns)
{
	struct look l = { .s = s, .now_ns = now_ns };
	struct rsk_service *services = calloc(RSK_SERVICE_MOST, sizeof(*services));
	uint64_t *ok_ns = calloc(RSK_SERVICE_MOST, sizeof(*ok_ns));
	size_t listeners = s->from.listeners->n;
	int rc = services && ok_ns ? 0 : -ENOMEM;

	if (listeners) {
		l.all = calloc(CONSIDERED_MOST + 1, sizeof(*l.all));
		l.sockets = calloc(listeners, sizeof(*l.sockets));
		rc = l.all && l.sockets ? rc : -ENOMEM;
	}
	if (rc == 0 && listeners) {
		s->from.measure(s->from.ctx);
		rsk_listeners_each(s->from.listeners, on_listener, &l);
		take_turns(&l);
		for (size_t i = 0; i < l.n_sockets; i++)
			consider(&l, &l.sockets[i].is);
		choose(&l);
	}
	if (rc == 0) {
		for (size_t i = 0; i < l.n; i++) {
			services[i] = l.all[i].is;
			ok_ns[i] = l.all[i].ok_ns;
		}
		free(s->entry.services);
		free(s->ok_ns);
		s->entry.services = services;
		s->entry.n = l.n;
		s->entry.left_out = l.left_out;
		s->ok_ns = ok_ns;
	} else {
		free(services);
		free(ok_ns);
	}
	free(l.sockets);
	free(l.all);
	return rc;
}

/* ---- start and end ---- */

void rsk_services_self_init(struct rsk_services_self *s, const struct rsk_services_source *from,
			    const struct rsk_conf_daemon *conf, const char *node)
{
	*s = (struct rsk_services_self){ .from = *from };
	snprintf(s->entry.node, sizeof(s->entry.node), "%s", node);
	for (size_t i = 0; i < conf->n_listen && i < RSK_SERVICE_LISTENS; i++)
		s->entry.listens[s->entry.n_listens++] = conf->listen[i];
}

void rsk_services_self_fini(struct rsk_services_self *s)
{
	rsk_service_entry_free(&s->entry);
	free(s->ok_ns);
	s->ok_ns = NULL;
}
