// SPDX-License-Identifier: BSD-2-Clause
/*
 * roles_publish.c - see roles_publish.h. Once a second it is looked whether the entries are in etcd
 * as they should be; if not, both are written by one transaction.
 */
#include "roles_publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "random.h"
#include "say.h"

#define EACH_S 1
/* Another tool that writes the same key does not make this daemon write without end. */
#define LOST_NS 5000000000ull
#define ANSWER_MOST 8192u
#define PORTS_MOST 64u
#define NOT_REACHED "no address is known at which others reach it; see cluster.address"

/* ---- the address ---- */

static bool is_any(const struct rsk_pm_addr *a)
{
	static const uint8_t any[16];

	return memcmp(a->ip, any, 16) == 0;
}

/* Whether a socket at @listen is reached at that address. */
static bool reaches(const struct rsk_pm_addr *listen, const struct rsk_pm_addr *at)
{
	return listen->ipv == at->ipv && (is_any(listen) || memcmp(listen->ip, at->ip, 16) == 0);
}

static bool of_rnic(const struct rsk_pma *pma, const struct rsk_pm_addr *listen,
		    struct rsk_pm_addr *out)
{
	struct rsk_pma_rail_port ports[PORTS_MOST];
	size_t n = rsk_pma_rail_ports(pma, ports, PORTS_MOST);

	for (size_t i = 0; i < n && i < PORTS_MOST; i++)
		for (size_t k = 0; k < ports[i].n_ips; k++) {
			*out = ports[i].ips[k];
			if (reaches(listen, out) && rsk_pm_addr_is_for_others(out)) {
				out->port = listen->port;
				return true;
			}
		}
	return false;
}

bool rsk_roles_address(const struct rsk_pm_addr *listen, size_t n, const struct rsk_pm_addr *given,
		       const struct rsk_pma *pma, struct rsk_pm_addr *out)
{
	for (size_t i = 0; i < n && given->ipv; i++)
		if (reaches(&listen[i], given)) {
			*out = *given;
			out->port = listen[i].port;
			return true;
		}
	for (size_t i = 0; i < n; i++)
		if (rsk_pm_addr_is_for_others(&listen[i])) {
			*out = listen[i];
			return true;
		}
	for (size_t i = 0; i < n; i++)
		if (is_any(&listen[i]) && of_rnic(pma, &listen[i], out))
			return true;
	return false;
}

/* Whether there is a role to tell. */
static bool look_at_addresses(struct rsk_roles_publish *p)
{
	bool all = true, any = false;

	for (size_t i = 0; i < RSK_ROLE_KINDS; i++) {
		struct rsk_roles_own *o = &p->own[i];

		if (o->is_wanted && !o->is_known)
			o->is_known = rsk_roles_address(o->listen, o->n_listen, &p->address, p->pma,
							&o->role.at);
		any |= o->is_known;
		all &= o->is_known || !o->is_wanted;
	}
	if (!all && !p->is_address_told) {
		p->is_address_told = true;
		rsk_say("a role of this host is not told to the cluster: %s", NOT_REACHED);
	}
	return any;
}

/* ---- writing ---- */

/* That etcd is not reached is logged by document.c. */
static void failed(struct rsk_roles_publish *p, int rc, const char *why)
{
	p->lease = 0;
	p->count.failures++;
	p->not_before_ns = rsk_clock_ns() + rsk_backoff_ns(++p->failures, rsk_random_u64());
	snprintf(p->why, sizeof(p->why), "%s", why ? why : strerror(-rc));
	rsk_document_clean(p->why);
	if (rc == -EHOSTUNREACH || rc == -ETIMEDOUT || rc == -ENOENT || p->is_told)
		return;
	p->is_told = true;
	rsk_say("this host's roles are not told to the cluster: %s", p->why);
}

static void on_written(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_roles_publish *p = ctx;
	struct rsk_etcd_answer a = { 0 };

	p->call = NULL;
	if (rc == 0) {
		why = "an answer of etcd about the roles is not valid";
		rc = rsk_etcd_take_txn(body, &a);
	}
	if (rc == 0 && a.succeeded) {
		p->lease = p->writing_lease;
		p->revision = a.revision;
		p->count.writes++;
		p->failures = 0;
		p->is_told = false;
		*p->why = 0;
		p->written(p->ctx);
	} else {
		/* Not executed: member.c has written its entry meanwhile, or does not hold it. */
		failed(p, rc < 0 ? rc : -ENOENT, rc < 0 ? why : "the member's entry has changed");
	}
	rsk_etcd_answer_free(&a);
}

static int put(json_t *txn, const struct rsk_roles_own *o, uint64_t lease)
{
	char *text = rsk_role_text(&o->role);
	int rc = text ? rsk_etcd_txn_put(txn, rsk_etcd_put(o->key, text, strlen(text), lease)) :
			-ENOMEM;

	free(text);
	return rc;
}

static void write_all(struct rsk_roles_publish *p)
{
	const struct rsk_member *m = p->member;
	json_t *txn = rsk_etcd_txn();
	const struct rsk_etcd_question q = { .method = RSK_ETCD_TXN,
					     .body = txn,
					     .answer_most = ANSWER_MOST,
					     .done = on_written,
					     .ctx = p };
	int rc = rsk_etcd_txn_compare(txn, m->key, m->held);

	for (size_t i = 0; rc == 0 && i < RSK_ROLE_KINDS; i++)
		if (p->own[i].is_known)
			rc = put(txn, &p->own[i], m->lease);
	p->writing_lease = m->lease;
	if (rc == 0)
		p->call = rsk_etcd_ask(p->etcd, &q);
	else
		json_decref(txn);
	if (!p->call)
		failed(p, -ENOMEM, "no memory");
}

/* The watch has told of the revision that was written here, and a key has another one now. */
static bool is_lost(const struct rsk_roles_publish *p)
{
	if (!p->watch->is_in_sync || p->watch->revision < p->revision)
		return false;
	/* A full table may be without it, and it is written for nothing then, now and then. */
	for (size_t i = 0; i < RSK_ROLE_KINDS; i++)
		if (p->own[i].is_known &&
		    rsk_roles_table_revision(p->table, p->own[i].key) != p->revision)
			return true;
	return false;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_roles_publish *p = arg;
	const struct rsk_member *m = p->member;
	uint64_t now = rsk_clock_ns();

	if (!look_at_addresses(p) || p->call || m->is_leaving || !rsk_member_is_registered(m) ||
	    now < p->not_before_ns)
		return;
	if (p->lease && p->lease == m->lease) {
		if (!is_lost(p))
			return;
		p->count.losses++;
		p->not_before_ns = now + LOST_NS;
	}
	write_all(p);
}

const char *rsk_roles_publish_why(const struct rsk_roles_publish *p)
{
	for (size_t i = 0; i < RSK_ROLE_KINDS; i++)
		if (p->own[i].is_wanted && !p->own[i].is_known)
			return NOT_REACHED;
	return *p->why ? p->why : NULL;
}

/* ---- start and end ---- */

static void want(struct rsk_roles_own *o, const struct rsk_pm_addr *listen, size_t n)
{
	o->is_wanted = true;
	for (size_t i = 0; i < n && i < RSK_ROLE_LISTENS; i++)
		o->listen[o->n_listen++] = listen[i];
}

int rsk_roles_publish_open(struct rsk_roles_publish *p, struct event_base *base, const char *head,
			   const struct rsk_conf_daemon *settings, const char *node)
{
	static const struct timeval each = { .tv_sec = EACH_S };
	struct rsk_roles_own *agent = &p->own[RSK_ROLE_PMA], *pmsp = &p->own[RSK_ROLE_PMSP];

	p->address = settings->cluster.address;
	if (settings->pma.n_listen)
		want(agent, settings->pma.listen, settings->pma.n_listen);
	if (settings->cluster.redirect)
		want(pmsp, settings->listen, settings->n_listen);
	for (size_t i = 0; i < RSK_ROLE_KINDS; i++) {
		struct rsk_roles_own *o = &p->own[i];

		o->role.kind = (enum rsk_role_kind)i;
		snprintf(o->role.node, sizeof(o->role.node), "%s", node);
		snprintf(o->key, sizeof(o->key), "%s%s/%s", head, rsk_role_names[i], node);
	}
	p->timer = event_new(base, -1, EV_PERSIST, on_timer, p);
	if (!p->timer)
		return -ENOMEM;
	if (!agent->is_wanted && !pmsp->is_wanted)
		return 0;
	return event_add(p->timer, &each) == 0 ? 0 : -ENOMEM;
}

void rsk_roles_publish_close(struct rsk_roles_publish *p)
{
	rsk_etcd_cancel(p->call);
	p->call = NULL;
	if (p->timer)
		event_free(p->timer);
	p->timer = NULL;
}
