// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon_cluster.c - see daemon.h: start and orderly end of what this daemon shares with others by
 * etcd, and the callbacks of it.
 */
#include <errno.h>
#include <stdio.h>

#include "clock.h"
#include "daemon.h"

/* ---- start ---- */

static bool elsewhere(void *ctx, const struct rsk_pm_msg *req, struct rsk_pm_addr *pmsp)
{
	struct rsk_daemon *d = ctx;
	struct rsk_services *s = &d->cluster->services;

	/* What is in etcd may name this host. */
	if (!rsk_services_table_find(&s->table, req, pmsp) || rsk_hotplug_carries(&d->plug, pmsp))
		return false;
	s->referred++;
	return true;
}

static void measure(void *ctx)
{
	struct rsk_daemon *d = ctx;

	rsk_agent_measure(&d->agent, rsk_clock_ns());
}

static bool quota_begin(void *ctx, const struct rsk_pm_msg *req, uint64_t reservation, bool there)
{
	return rsk_quotas_begin(ctx, req->ipv, req->cp_ip, req->ap_ip, reservation, there);
}

static void quota_ended(void *ctx, uint64_t reservation)
{
	rsk_quotas_ended(ctx, reservation);
}

static void quota_moved(void *ctx, uint64_t from, uint64_t to)
{
	rsk_quotas_moved(ctx, from, to);
}

static int open_quotas(struct rsk_daemon *d)
{
	static const struct rsk_agent_quota_ops ops = { .begin = quota_begin,
							.ended = quota_ended,
							.moved = quota_moved };

	if (!d->settings.cluster.hold_ns)
		return 0;
	d->quotas = rsk_quotas_open(d->base, &d->settings.cluster, d->pma, d->cluster);
	if (!d->quotas)
		return -ENOMEM;
	rsk_agent_ask_quotas(&d->agent.ask, &ops, d->quotas);
	return 0;
}

int rsk_daemon_open_cluster(struct rsk_daemon *d, char *error, size_t n)
{
	const struct rsk_services_source from = {
		.pma = d->pma, .listeners = &d->local.listeners, .measure = measure, .ctx = d
	};
	char why[400];

	if (!d->settings.cluster.n_endpoints)
		return 0;
	d->cluster = rsk_cluster_open(d->base, &d->disk, &d->settings, &from, rsk_daemon_document,
				      rsk_daemon_roles, d, why, sizeof(why));
	if (!d->cluster) {
		snprintf(error, n, "the cluster: %s", why);
		return -EIO;
	}
	if (d->settings.cluster.redirect)
		d->agent.elsewhere = elsewhere;
	if (open_quotas(d) < 0) {
		snprintf(error, n, "the cluster: no memory");
		return -ENOMEM;
	}
	return 0;
}

/* ---- the end ---- */

/* Twice what a call of it may take */
static const struct timeval leave_most = { .tv_usec = 400000 };

static void end_loop(void *ctx)
{
	struct rsk_daemon *d = ctx;

	event_base_loopexit(d->base, NULL);
}

/* What this host holds in etcd was given back, or could not be in time. */
static void on_left(void *ctx)
{
	struct rsk_daemon *d = ctx;

	if (!--d->leaving)
		end_loop(d);
}

void rsk_daemon_leave(struct rsk_daemon *d)
{
	/* The second signal ends the loop at once. */
	if (!d->leaving && d->cluster) {
		d->leaving += d->quotas && rsk_quotas_leave(d->quotas, on_left, d);
		d->leaving += rsk_member_leave(&d->cluster->member, on_left, d);
		if (d->leaving) {
			/* A call that waits for another one's token may take longer. */
			event_base_loopexit(d->base, &leave_most);
			return;
		}
	}
	end_loop(d);
}
