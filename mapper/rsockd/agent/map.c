// SPDX-License-Identifier: BSD-2-Clause
/* map.c - see map.h. */
#include "map.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

/*
 * The next central PMSP of the cluster that is not known to be silent. False: there is none, and
 * m->asked is as it was.
 */
static bool next_central(struct rsk_map *m)
{
	struct rsk_pm_cache *cache = &m->by->client->cache;
	uint64_t now = rsk_clock_ns();
	struct rsk_pm_addr at;

	while (m->by->central(m->by->ctx, &m->cursor, &at))
		if (!rsk_pm_cache_silent(cache, &at, now)) {
			m->asked = at;
			return true;
		}
	return false;
}

/* If all are silent the first one is asked as any host is that is silent: now and then. */
static void choose_central(struct rsk_map *m)
{
	uint64_t first = UINT64_MAX;

	m->asked = (struct rsk_pm_addr){ 0 };
	m->cursor = UINT64_MAX;
	if (!next_central(m))
		m->by->central(m->by->ctx, &first, &m->asked);
}

/* Asks the PMSP that was chosen. Returns as rsk_pm_client_ask(). */
static int ask(struct rsk_map *m)
{
	if (!m->asked.port)
		return RSK_PM_NO_ANSWER;
	return rsk_pm_client_ask(m->by->client, &m->req, &m->asked, m, rsk_clock_ns(), &m->mapping);
}

/* A central PMSP has not answered: the next one is asked. False: there is none, or it is known. */
static bool ask_next(struct rsk_map *m)
{
	while (m->by->settings->central_by_role && next_central(m)) {
		int rc = ask(m);

		if (rc == RSK_PM_PENDING) {
			rsk_udp_flush(m->by->udp);
			m->by->agent->after(m->by->agent->ctx);
			return true;
		}
		if (rc >= 0 && rc != RSK_PM_NO_ANSWER) {
			m->outcome = (enum rsk_pm_outcome)rc;
			return false;
		}
	}
	return false;
}

void rsk_map_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
		  const struct rsk_pm_mapping *m)
{
	struct rsk_map *map = user;

	map->outcome = outcome;
	if (m)
		map->mapping = *m;
	if (outcome == RSK_PM_NO_ANSWER && ask_next(map))
		return;
	map->done(map);
}

static void keep_name(char *to, size_t n, const char **name)
{
	snprintf(to, n, "%s", *name ? *name : "");
	*name = NULL;
}

/* Nobody is asked for a session of an RNIC that takes none, as the cluster's ledger says. */
static void look_at_quota(struct rsk_map *m)
{
	struct rsk_agent *a = m->by->agent;

	if (m->answer.verdict != RSK_PMA_MAP || !a->ask.quota_ops ||
	    a->ask.quota_ops->begin(a->ask.quota_ctx, &m->req, m->answer.reservation, false))
		return;
	rsk_pma_release(a->pma, m->answer.reservation);
	m->answer.verdict = RSK_PMA_REMOTE_FULL;
	m->answer.reservation = 0;
	rsk_agent_count(a, RSK_PMA_REMOTE_FULL);
}

/* Goes on after the decision of F1. */
static int map_go_on(struct rsk_map *m)
{
	const struct rsk_map_client *by = m->by;
	int rc;

	keep_name(m->rule, sizeof(m->rule), &m->answer.rule);
	keep_name(m->device, sizeof(m->device), &m->answer.device);
	look_at_quota(m);
	if (m->answer.verdict != RSK_PMA_MAP) {
		m->done(m);
		return 0;
	}
	/*
	 * The link comes from the RNIC that was chosen. If its address differs from that of the TCP
	 * socket, the PMReq says so.
	 */
	if (memcmp(m->answer.ip, m->req.cp_ip, 16) != 0) {
		m->req.mapped = true;
		memcpy(m->req.mapped_cp_ip, m->answer.ip, 16);
	}
	rc = ask(m);
	if (rc < 0)
		return rc;
	rsk_udp_flush(by->udp);
	by->agent->after(by->agent->ctx);
	if (rc != RSK_PM_PENDING) {
		m->outcome = (enum rsk_pm_outcome)rc;
		m->done(m);
	}
	return 0;
}

static void map_decided(void *user, const struct rsk_pma_answer *answer)
{
	struct rsk_map *m = user;

	m->waits = false;
	m->answer = *answer;
	rsk_agent_count(m->by->agent, answer->verdict);
	if (map_go_on(m) < 0) {
		m->outcome = RSK_PM_NO_ANSWER;
		m->done(m);
	}
}

int rsk_map_start(struct rsk_map *m)
{
	const struct rsk_map_client *by = m->by;
	int rc;

	m->asked = (struct rsk_pm_addr){ .port = RSK_PM_UDP_PORT, .ipv = m->req.ipv };
	memcpy(m->asked.ip, m->req.ap_ip, 16);
	if (by->settings->central_by_role)
		choose_central(m);
	else if (by->settings->central.port)
		m->asked = by->settings->central;
	m->outcome = RSK_PM_REFUSED;
	m->waits = true;
	if (!rsk_agent_may_ask(by->agent, &m->req, m->uid, m->numa_nodes, &m->answer, map_decided,
			       m))
		return 0;
	m->waits = false;
	rc = map_go_on(m);
	if (rc < 0)
		rsk_pma_release(by->agent->pma, m->answer.reservation);
	return rc;
}

void rsk_map_cancel(struct rsk_map *m)
{
	if (m->waits) {
		rsk_agent_forget(&m->by->agent->ask, m);
		return;
	}
	rsk_pm_client_cancel(m->by->client, m);
	if (m->answer.verdict == RSK_PMA_MAP)
		rsk_pma_release(m->by->agent->pma, m->answer.reservation);
}
