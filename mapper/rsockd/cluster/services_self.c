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

/* A service, and when policy has mapped it last; 0: it lacks resources. */
struct found {
	struct rsk_service is;
	uint64_t ok_ns;
};

/* What one look finds. */
struct look {
	const struct rsk_services_self *s;
	uint64_t now_ns;
	struct found *all; /* owned, with room for CONSIDERED_MOST */
	size_t n, considered;
	uint64_t left_out;
	struct rsk_pma_socket last;
};

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
	*f = (struct found){ .is = { .at = offer->at, .rdma = offer->rdma } };
	rsk_service_put_text(f->is.name, sizeof(f->is.name), offer->service);
	if (!offer->is_short) {
		rsk_service_put_text(f->is.device, sizeof(f->is.device), offer->device);
		f->ok_ns = l->now_ns;
	}
	l->n++;
}

static void on_listener(void *ctx, const struct rsk_listener *is)
{
	struct look *l = ctx;
	const struct rsk_pma_socket socket = { .at = is->at, .uid = is->uid };

	/* Of sockets that share an address (SO_REUSEPORT) one is enough. */
	if (l->last.uid == socket.uid && rsk_pm_addr_equal(&l->last.at, &socket.at))
		return;
	l->last = socket;
	if (l->considered >= CONSIDERED_MOST)
		l->left_out++;
	else
		l->considered += rsk_pma_offers(l->s->from.pma, &socket, l->now_ns, on_offer, l);
}

/* ---- all of them ---- */

/* By address; of the same address the one that is mapped is first. */
static int in_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int order = (int)x->is.at.ipv - y->is.at.ipv;

	if (!order)
		order = memcmp(x->is.at.ip, y->is.at.ip, 16);
	if (!order)
		order = (int)x->is.at.port - y->is.at.port;
	return order ? order : (y->ok_ns != 0) - (x->ok_ns != 0);
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
		*f = (struct found){ .is = s->entry.services[was], .ok_ns = s->ok_ns[was] };
		return true;
	}
	if (was == SIZE_MAX)
		put_time(f->is.since);
	else
		memcpy(f->is.since, s->entry.services[was].since, sizeof(f->is.since));
	return true;
}

/* Takes what was found, sorted, into new lists. */
static void choose(struct rsk_services_self *s, struct look *l, struct rsk_service *services,
		   uint64_t *ok_ns)
{
	uint64_t left_out = l->left_out;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct found *f = &l->all[i];

		if (i && rsk_pm_addr_equal(&f->is.at, &l->all[i - 1].is.at))
			continue;
		if (n == RSK_SERVICE_MOST) {
			left_out++;
		} else if (carry_over(s, f, l->now_ns)) {
			services[n] = f->is;
			ok_ns[n++] = f->ok_ns;
		}
	}
	free(s->entry.services);
	free(s->ok_ns);
	s->entry.services = services;
	s->entry.n = n;
	s->entry.left_out = left_out;
	s->ok_ns = ok_ns;
}

int rsk_services_self_update(struct rsk_services_self *s, uint64_t now_ns)
{
	struct look l = { .s = s, .now_ns = now_ns };
	struct rsk_service *services = calloc(RSK_SERVICE_MOST, sizeof(*services));
	uint64_t *ok_ns = calloc(RSK_SERVICE_MOST, sizeof(*ok_ns));

	l.all = s->from.listeners->n ? calloc(CONSIDERED_MOST + 1, sizeof(*l.all)) : NULL;
	if (!services || !ok_ns || (s->from.listeners->n && !l.all)) {
		free(services);
		free(ok_ns);
		free(l.all);
		return -ENOMEM;
	}
	if (l.all) {
		s->from.measure(s->from.ctx);
		rsk_listeners_each(s->from.listeners, on_listener, &l);
		qsort(l.all, l.n, sizeof(*l.all), in_order);
	}
	choose(s, &l, services, ok_ns);
	free(l.all);
	return 0;
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
