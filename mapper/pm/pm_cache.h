/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_cache.h - what a PM client remembers: mappings for as long as they are valid, refusals and
 * silent hosts for a while, and each host's response time. Used by pm_client.c and pm_state.c.
 * Bounded: the oldest entry is replaced. One thread; the caller passes the time.
 */
#ifndef RSK_PM_CACHE_H
#define RSK_PM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"
#include "pm_msg.h"

/* PmTime of a mapping without time limit (our value; anything less is seconds). */
#define RSK_PM_TIME_LASTING 255

enum rsk_pm_outcome {
	RSK_PM_PENDING, /* not known yet; as the answer of a cache: nothing is known */
	RSK_PM_MAPPED,	/* use the RDMA address */
	/* PMDeny: use the conventional address */
	RSK_PM_REFUSED,
	/* The host maps nothing: use the conventional address */
	RSK_PM_NO_ANSWER,
};

struct rsk_pm_mapping {
	struct rsk_pm_addr rdma;
	uint64_t until_ns; /* UINT64_MAX: lasting; 0: for one transaction */
	uint64_t handle;   /* of the transaction that has just brought it; 0: remembered */
};

struct rsk_pm_cache_config {
	size_t max_services, max_hosts;
	uint64_t refused_ns; /* how long a refusal is remembered */
	/* How long a host that does not answer is remembered */
	uint64_t silent_ns;
	uint64_t rtt_ns; /* how long a measured round trip is valid */
	uint64_t rto_first_ns, rto_least_ns, rto_most_ns;
};

#define RSK_PM_CACHE_DEFAULT                                                                       \
	{                                                                                          \
		.max_services = 4096, .max_hosts = 1024, .refused_ns = 10000000000,                \
		.silent_ns = 60000000000, .rtt_ns = 60000000000, .rto_first_ns = 250000000,        \
		.rto_least_ns = 20000000, .rto_most_ns = 4000000000,                               \
	}

struct rsk_pm_service; /* a service mapping, or a refusal */
struct rsk_pm_host;

struct rsk_pm_cache {
	struct rsk_pm_cache_config config;
	struct rsk_pm_service *services; /* hash table, in order of insertion */
	struct rsk_pm_host *hosts;
	uint64_t changes; /* number of changes of mappings */
};

void rsk_pm_cache_init(struct rsk_pm_cache *c, const struct rsk_pm_cache_config *config);
void rsk_pm_cache_fini(struct rsk_pm_cache *c);

/*
 * Looks up the service that a PMReq of CpPort 0 asks for, from that CP address, for a link from
 * that address. MAPPED fills in *out.
 */
enum rsk_pm_outcome rsk_pm_cache_find(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
				      uint64_t now_ns, struct rsk_pm_mapping *out);

/* Returns 0 or -ENOMEM (it is not remembered). */
int rsk_pm_cache_mapped(struct rsk_pm_cache *c, const struct rsk_pm_msg *req,
			const struct rsk_pm_mapping *m, uint64_t now_ns);
int rsk_pm_cache_refused(struct rsk_pm_cache *c, const struct rsk_pm_msg *req, uint64_t now_ns);
void rsk_pm_cache_forget(struct rsk_pm_cache *c, const struct rsk_pm_msg *req);

/*
 * Returns the time until which a mapping is valid, for the PmTime of a PMAccept that came @now_ns.
 */
uint64_t rsk_pm_until(uint8_t pm_time_s, uint64_t now_ns);

/* True if that host did not answer recently. */
bool rsk_pm_cache_silent(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t now_ns);
/*
 * True if a silent host may be asked all the same, for a connection that exists already and asks
 * again now and then: once in two seconds, for the first caller.
 */
bool rsk_pm_cache_may_try(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t now_ns);
void rsk_pm_cache_note_silence(struct rsk_pm_cache *c, const struct rsk_pm_addr *host,
			       uint64_t now_ns);

/* The host has answered: it is not silent any more. */
void rsk_pm_cache_note_answer(struct rsk_pm_cache *c, const struct rsk_pm_addr *host);

/* Records the time to answer a request that was sent once (Karn); the host is not silent. */
void rsk_pm_cache_note_rtt(struct rsk_pm_cache *c, const struct rsk_pm_addr *host, uint64_t rtt_ns,
			   uint64_t now_ns);

/* Returns the smoothed round-trip time (RFC 6298); 0: unknown, or measured too long ago. */
uint64_t rsk_pm_cache_rtt(const struct rsk_pm_cache *c, const struct rsk_pm_addr *host,
			  uint64_t now_ns);

/* Returns how long to wait for its first answer: RFC 6298, within the bounds. */
uint64_t rsk_pm_cache_rto(const struct rsk_pm_cache *c, const struct rsk_pm_addr *host);

/* A mapping in the form that is saved. */
struct rsk_pm_kept {
	uint8_t cp_ip[16], ap_ip[16];
	uint16_t ap_port;
	uint8_t ipv;
	struct rsk_pm_mapping mapping;
};
/*
 * Stores the newest @max valid mappings, in order of insertion. Returns how many; with @out NULL it
 * only counts them.
 */
size_t rsk_pm_cache_kept(const struct rsk_pm_cache *c, uint64_t now_ns, struct rsk_pm_kept *out,
			 size_t max);
/* Adds a saved mapping. Returns 0 or -ENOMEM. */
int rsk_pm_cache_keep(struct rsk_pm_cache *c, const struct rsk_pm_kept *kept, uint64_t now_ns);

bool rsk_pm_cache_validate(const struct rsk_pm_cache *c);

#endif
