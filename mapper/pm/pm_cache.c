// SPDX-License-Identifier: BSD-2-Clause
/* pm_cache.c - see pm_cache.h. */
#include "pm_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "pm_hash.h"

#define TRY_EACH_NS 2000000000u

struct service_key {
	uint8_t cp_ip[16], ap_ip[16];
	/* Source of the link; a mapping is valid for one source */
	uint8_t mapped_cp_ip[16];
	uint16_t ap_port, mapped_cp_port;
	uint16_t ipv;
};

struct rsk_pm_service {
	struct service_key key;
	struct rsk_pm_mapping mapping;
	enum rsk_pm_outcome outcome; /* MAPPED or REFUSED */
	UT_hash_handle hh;
};

struct rsk_pm_host {
	struct rsk_pm_addr key;
	uint64_t srtt_ns, rttvar_ns; /* 0: not measured yet */
	uint64_t measured_ns;
	uint64_t silent_until_ns, tried_ns;
	UT_hash_handle hh;
};

void rsk_pm_cache_init(struct rsk_pm_cache *c, const struct rsk_pm_cache_config *config)
{
	*c = (struct rsk_pm_cache){ .config = *config };
}

static void remove_service(struct rsk_pm_cache *c, struct rsk_pm_service *s)
{
	c->changes += s->outcome == RSK_PM_MAPPED;
	HASH_DEL(c->services, s);
	free(s);
}

void rsk_pm_cache_fini(struct rsk_pm_cache *c)
{
	struct rsk_pm_service *s = c->services, *next_s;
	struct rsk_pm_host *h = c->hosts, *next_h;

	/* The hash tables are cleared; their elements remain lists. */
	HASH_CLEAR(hh, c->services);
	HASH_CLEAR(hh, c->hosts);
	for (; s; s = next_s) {
		next_s = s->hh.next;
		free(s);
	}
	for (; h; h = next_h) {
		next_h = h->hh.next;
		free(h);
	}
}

static struct rsk_pm_service *find_service(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
					   struct service_key *key)
{
	struct rsk_pm_service *s;

	memset(key, 0, sizeof(*key));
	memcpy(key->cp_ip, req->cp_ip, 16);
	memcpy(key->ap_ip, req->ap_ip, 16);
	if (req->mapped) {
		memcpy(key->mapped_cp_ip, req->mapped_cp_ip, 16);
		key->mapped_cp_port = req->mapped_cp_port;
	}
	key->ap_port = req->ap_port;
	key->ipv = req->ipv;
	HASH_FIND(hh, c->services, key, sizeof(*key), s);
	return s;
}

enum rsk_pm_outcome rsk_pm_cache_find(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
				      uint64_t now_ns, struct rsk_pm_mapping *out)
{
	struct service_key key;
	struct rsk_pm_service *s = find_service(c, req, &key);

	if (!s)
		return RSK_PM_PENDING;
	if (now_ns >= s->mapping.until_ns) {
		remove_service(c, s);
		return RSK_PM_PENDING;
	}
	if (s->outcome == RSK_PM_MAPPED)
		*out = s->mapping;
	return s->outcome;
}

static int remember(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
		    enum rsk_pm_outcome outcome, const struct rsk_pm_mapping *m)
{
	struct service_key key;
	struct rsk_pm_service *s = find_service(c, req, &key);

	/*
	 * Delete and add again: uthash keeps the order of insertion, so that the first one is the
	 * oldest.
	 */
	if (!s && HASH_COUNT(c->services) >= c->config.max_services)
		s = c->services;
	if (s)
		HASH_DEL(c->services, s);
	else
		s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct rsk_pm_service){ .key = key, .mapping = *m, .outcome = outcome };
	s->mapping.handle = 0;
	c->changes++;
	HASH_ADD(hh, c->services, key, sizeof(s->key), s);
	return 0;
}

int rsk_pm_cache_mapped(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
			const struct rsk_pm_mapping *m, uint64_t now_ns)
{
	if (now_ns >= m->until_ns) {
		rsk_pm_cache_forget(c, req);
		return 0;
	}
	return remember(c, req, RSK_PM_MAPPED, m);
}

int rsk_pm_cache_refused(struct rsk_pm_cache *c, const struct rsk_pm_msg *req, uint64_t now_ns)
{
	const struct rsk_pm_mapping m = { .until_ns = now_ns + c->config.refused_ns };

	return remember(c, req, RSK_PM_REFUSED, &m);
}

void rsk_pm_cache_forget(struct rsk_pm_cache *c, const struct rsk_pm_msg *req)
{
	struct service_key key;
	struct rsk_pm_service *s = find_service(c, req, &key);

	if (s)
		remove_service(c, s);
}

uint64_t rsk_pm_until(uint8_t pm_time_s, uint64_t now_ns)
{
	if (!pm_time_s)
		return 0;
	return pm_time_s == RSK_PM_TIME_LASTING ? UINT64_MAX : now_ns + pm_time_s * 1000000000ull;
}

/* ---- saved mappings ---- */

static bool is_kept(const struct rsk_pm_service *s, uint64_t now_ns)
{
	return s->outcome == RSK_PM_MAPPED && s->mapping.until_ns > now_ns;
}

size_t rsk_pm_cache_kept(const struct rsk_pm_cache *c, uint64_t now_ns, struct rsk_pm_kept *out,
			 size_t max)
{
	size_t all = 0, skip, n = 0;
	const struct rsk_pm_service *s;

	for (s = c->services; s; s = s->hh.next)
		all += is_kept(s, now_ns);
	skip = all > max ? all - max : 0;
	if (!out)
		return all - skip;
	for (s = c->services; s; s = s->hh.next) {
		if (!is_kept(s, now_ns))
			continue;
		if (skip) {
			skip--;
			continue;
		}
		out[n] = (struct rsk_pm_kept){ .ap_port = s->key.ap_port,
					       .ipv = (uint8_t)s->key.ipv,
					       .mapping = s->mapping };
		memcpy(out[n].cp_ip, s->key.cp_ip, 16);
		memcpy(out[n].ap_ip, s->key.ap_ip, 16);
		n++;
	}
	return n;
}

int rsk_pm_cache_keep(struct rsk_pm_cache *c, const struct rsk_pm_kept *kept, uint64_t now_ns)
{
	struct rsk_pm_msg req = { .op = RSK_PM_REQ, .ipv = kept->ipv, .ap_port = kept->ap_port };

	memcpy(req.cp_ip, kept->cp_ip, 16);
	memcpy(req.ap_ip, kept->ap_ip, 16);
	return rsk_pm_cache_mapped(c, &req, &kept->mapping, now_ns);
}

/* ---- hosts ---- */

static struct rsk_pm_host *find_host(const struct rsk_pm_cache *c, const struct rsk_pm_addr *host)
{
	struct rsk_pm_host *h;

	HASH_FIND(hh, c->hosts, host, sizeof(*host), h);
	return h;
}

static struct rsk_pm_host *host_of(struct rsk_pm_cache *c, const struct rsk_pm_addr *host)
{
	struct rsk_pm_host *h = find_host(c, host);

	if (h)
		return h;
	if (HASH_COUNT(c->hosts) >= c->config.max_hosts)
		h = c->hosts;
	if (h)
		HASH_DEL(c->hosts, h);
	else
		h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct rsk_pm_host){ .key = *host };
	HASH_ADD(hh, c->hosts, key, sizeof(h->key), h);
	return h;
}

bool rsk_pm_cache_silent(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t now_ns)
{
	const struct rsk_pm_host *h = find_host(c, host);

	return h && now_ns < h->silent_until_ns;
}

bool rsk_pm_cache_may_try(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t now_ns)
{
	struct rsk_pm_host *h = find_host(c, host);

	if (!h || now_ns >= h->silent_until_ns)
		return true;
	if (now_ns - h->tried_ns < TRY_EACH_NS)
		return false;
	h->tried_ns = now_ns;
	return true;
}

void rsk_pm_cache_note_silence(struct rsk_pm_cache *c, const struct rsk_pm_addr *host,
			       uint64_t now_ns)
{
	struct rsk_pm_host *h = host_of(c, host);

	if (!h)
		return;
	h->silent_until_ns = now_ns + c->config.silent_ns;
	h->tried_ns = now_ns;
}

void rsk_pm_cache_note_answer(struct rsk_pm_cache *c, const struct rsk_pm_addr *host)
{
	struct rsk_pm_host *h = find_host(c, host);

	if (h)
		h->silent_until_ns = 0;
}

void rsk_pm_cache_note_rtt(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t rtt_ns,
			   uint64_t now_ns)
{
	struct rsk_pm_host *h = host_of(c, host);
	uint64_t off;

	if (!h)
		return;
	h->silent_until_ns = 0;
	h->measured_ns = now_ns;
	if (!h->srtt_ns) {
		h->srtt_ns = rtt_ns ? rtt_ns : 1;
		h->rttvar_ns = rtt_ns / 2;
		return;
	}
	off = h->srtt_ns > rtt_ns ? h->srtt_ns - rtt_ns : rtt_ns - h->srtt_ns;
	h->rttvar_ns = h->rttvar_ns - h->rttvar_ns / 4 + off / 4;
	h->srtt_ns = h->srtt_ns - h->srtt_ns / 8 + rtt_ns / 8;
	if (!h->srtt_ns)
		h->srtt_ns = 1;
}

uint64_t rsk_pm_cache_rtt(const struct rsk_pm_cache *c, const struct rsk_pm_addr *host,
			  uint64_t now_ns)
{
	const struct rsk_pm_host *h = find_host(c, host);

	return h && now_ns - h->measured_ns < c->config.rtt_ns ? h->srtt_ns : 0;
}

uint64_t rsk_pm_cache_rto(const struct rsk_pm_cache *c, const struct rsk_pm_addr *host)
{
	const struct rsk_pm_host *h = find_host(c, host);
	uint64_t rto;

	if (!h || !h->srtt_ns)
		return c->config.rto_first_ns;
	rto = h->srtt_ns + 4 * h->rttvar_ns;
	if (rto < c->config.rto_least_ns)
		rto = c->config.rto_least_ns;
	return rto < c->config.rto_most_ns ? rto : c->config.rto_most_ns;
}

bool rsk_pm_cache_validate(const struct rsk_pm_cache *c)
{
	const struct rsk_pm_service *s;

	for (s = c->services; s; s = s->hh.next)
		if ((s->outcome != RSK_PM_MAPPED && s->outcome != RSK_PM_REFUSED) ||
		    (s->outcome == RSK_PM_MAPPED && !s->mapping.rdma.port))
			return false;
	return HASH_COUNT(c->services) <= c->config.max_services &&
	       HASH_COUNT(c->hosts) <= c->config.max_hosts;
}
