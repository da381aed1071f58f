// SPDX-License-Identifier: BSD-2-Clause
/* quotas.c - see quotas.h. */
#include "quotas.h"

#include <stdlib.h>

#include "say.h"

#define EACH_US 100000

static const char *const names[] = { [RSK_QUOTAS_STARTING] = "starting",
				     [RSK_QUOTAS_SHARED] = "shared",
				     [RSK_QUOTAS_HELD] = "held",
				     [RSK_QUOTAS_LOCAL] = "local" };

const char *rsk_quotas_state_name(enum rsk_quotas_state s)
{
	return names[s];
}

static enum rsk_quotas_state state_of(const struct rsk_quotas *q, uint64_t now)
{
	bool is_known = q->heard_ns && now - q->heard_ns < q->hold_ns &&
			rsk_quota_lease_is_valid(&q->lease, now);

	if (is_known && !q->lease.failures && q->take.watch.is_in_sync && q->own.watch.is_in_sync)
		return RSK_QUOTAS_SHARED;
	if (q->state == RSK_QUOTAS_STARTING || q->state == RSK_QUOTAS_LOCAL)
		return q->state;
	return is_known ? RSK_QUOTAS_HELD : RSK_QUOTAS_LOCAL;
}

static void look_at_state(struct rsk_quotas *q)
{
	uint64_t now = rsk_quota_now_ns();
	enum rsk_quotas_state was = q->state;

	if (q->take.watch.is_in_sync)
		q->heard_ns = now;
	q->state = state_of(q, now);
	if (q->state == was)
		return;
	if (q->state == RSK_QUOTAS_HELD)
		rsk_say("the cluster's ledger: etcd is away; quotas are used for %llu s more",
			(unsigned long long)(q->hold_ns / 1000000000u));
	else if (q->state == RSK_QUOTAS_LOCAL)
		rsk_say("the cluster's ledger: quotas are not valid any more; only what is local "
			"counts");
	else if (q->state == RSK_QUOTAS_SHARED)
		rsk_say("the cluster's ledger is in use");
}

/* What a former run of this daemon has offered. */
static void look_for_offers(struct rsk_quotas *q)
{
	for (const struct rsk_quota_remote *r = q->take.remotes.remotes; r; r = r->hh.next)
		if (r->is_own && r->is_readable)
			rsk_quota_own_found(&q->own, r->tail + r->node_bytes + 1, r->revision,
					    &r->offer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_quotas *q = arg;

	look_at_state(q);
	look_for_offers(q);
	rsk_quota_own_tick(&q->own);
	rsk_quota_take_step(&q->take);
}

static void on_lease(void *ctx)
{
	rsk_quota_take_lapsed(&((struct rsk_quotas *)ctx)->take);
}

struct rsk_quotas *rsk_quotas_open(struct event_base *base, const struct rsk_conf_cluster *conf,
				   struct rsk_pma *pma, struct rsk_cluster *cluster)
{
	static const struct timeval each = { .tv_usec = EACH_US };
	struct rsk_quotas *q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return NULL;
	q->hold_ns = conf->hold_ns;
	rc = rsk_quota_take_open(&q->take, base, cluster->etcd, &q->lease, &cluster->member,
				 conf->prefix);
	if (rc == 0)
		rc = rsk_quota_own_open(&q->own, base, cluster->etcd, pma, &cluster->member,
					conf->prefix, conf->hold_ns);
	if (rc == 0)
		rc = rsk_quota_lease_open(&q->lease, base, cluster->etcd, conf->hold_ns, on_lease,
					  q);
	q->timer = rc == 0 ? event_new(base, -1, EV_PERSIST, on_timer, q) : NULL;
	if (q->timer && event_add(q->timer, &each) == 0)
		return q;
	rsk_quotas_close(q);
	return NULL;
}

void rsk_quotas_close(struct rsk_quotas *q)
{
	if (!q)
		return;
	if (q->timer)
		event_free(q->timer);
	rsk_quota_lease_close(&q->lease);
	rsk_quota_own_close(&q->own);
	rsk_quota_take_close(&q->take);
	free(q);
}

bool rsk_quotas_leave(struct rsk_quotas *q, void (*left)(void *ctx), void *ctx)
{
	if (!q->take.watch.is_in_sync || !rsk_quota_remotes_are_told(&q->take.remotes) ||
	    !rsk_quota_lease_leave(&q->lease, left, ctx))
		return false;
	event_del(q->timer); /* that no quota is valid is not to be logged */
	return true;
}

/* ---- sessions ---- */

/* Whether the RNIC is to be asked, and why. */
static bool may_ask(struct rsk_quotas *q, struct rsk_quota_remote *r)
{
	enum rsk_quota_state state = r->offer.state;
	uint64_t now = rsk_quota_now_ns();
	bool is_down = state == RSK_QUOTA_DRAINING || state == RSK_QUOTA_DOWN;

	if (q->state != RSK_QUOTAS_SHARED && q->state != RSK_QUOTAS_HELD)
		return true;
	if (!is_down && rsk_quota_has_room(&r->q, now, q->lease.until_ns)) {
		q->count.covered++;
		return true;
	}
	/* Another RNIC of that node may be given in place of this one. */
	if (state == RSK_QUOTA_UP || !r->is_readable ||
	    rsk_quota_remotes_spared(&q->take.remotes, r)) {
		q->count.asked++;
		return true;
	}
	q->count.spared++;
	r->q.busy_ns = now; /* a quota would be of use */
	return false;
}

bool rsk_quotas_begin(struct rsk_quotas *q, uint8_t ipv, const uint8_t cp_ip[static 16],
		      const uint8_t ap_ip[static 16], uint64_t reservation, bool there)
{
	struct rsk_quota_remote *r = rsk_quota_remotes_at(&q->take.remotes, ipv, ap_ip);

	if (!r)
		return true;
	rsk_quota_take_address(&q->take, ipv, cp_ip);
	/* While the quotas are given back, a new session would not be among what was published. */
	if (!there && (q->lease.is_leaving || !may_ask(q, r)))
		return false;
	/* Without memory it is not counted here; the other host counts it anyway. */
	rsk_quota_remotes_begin(&q->take.remotes, r, reservation, rsk_quota_now_ns());
	rsk_quota_take_step(&q->take);
	return true;
}

void rsk_quotas_ended(struct rsk_quotas *q, uint64_t reservation)
{
	rsk_quota_remotes_ended(&q->take.remotes, reservation);
}

void rsk_quotas_moved(struct rsk_quotas *q, uint64_t from, uint64_t to)
{
	rsk_quota_remotes_moved(&q->take.remotes, from, to);
}

/* ---- for operators ---- */

json_t *rsk_quotas_list(const struct rsk_quotas *q)
{
	const char *why = *q->lease.why	     ? q->lease.why :
			  *q->take.watch.why ? q->take.watch.why :
			  *q->own.watch.why  ? q->own.watch.why :
					       NULL;

	return json_pack("{s:s,s:s?,s:o,s:o}", "state", names[q->state], "error", why, "own",
			 rsk_quota_own_list(&q->own), "remote", rsk_quota_take_list(&q->take));
}
