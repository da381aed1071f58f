/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_client.h - the PM client: asks a PMSP for the RDMA address of a service, for one connecting peer or, as a proxy,
 * for many. A pure machine: datagrams, the clock and random numbers are handed in; it never blocks.
 *
 *	ask --known, or the host is silent--> answered at once
 *	ask --> OPEN: PMReq sent, the same bytes again when the timer fires, each time after twice as long
 *	OPEN --PMAccept--> PMAck to where it came from, MAPPED    --PMDeny--> REFUSED    --the last timer--> NO_ANSWER
 *
 * The first answer wins. For some time after it a PMAccept that comes again is acknowledged again: the PMSP did not
 * hear. Whatever else comes matches nothing and is dropped. Source: as pmsp.h. One thread.
 */
#ifndef RSK_PM_CLIENT_H
#define RSK_PM_CLIENT_H

#include "deadline.h"
#include "pm_cache.h"

struct rsk_pm_client_ops {
	/* Never 0, never a counter. */
	uint64_t (*random)(void *ctx);
	void (*send)(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes);
	/* The answer for @user; @m is set if it is MAPPED. May ask anew. */
	void (*done)(void *ctx, void *user, enum rsk_pm_outcome outcome,
		     const struct rsk_pm_mapping *m);
	/* May a mapping that is remembered be used? Asks the policy agent; NULL: yes. */
	bool (*holds)(void *ctx, const struct rsk_pm_msg *req, const struct rsk_pm_mapping *m);
};

struct rsk_pm_client_config {
	struct rsk_pm_cache_config cache;
	uint32_t max_open;  /* transactions at once */
	uint8_t max_sends;  /* of one PMReq, the first included */
	uint64_t linger_ns; /* how long a PMAccept that comes again is acknowledged */
};

/* 250 ms doubled four times: given up after 7.75 s where nothing is known of the host, less than iwpmd's ten. */
#define RSK_PM_CLIENT_DEFAULT                                                                      \
	{                                                                                          \
		.cache = RSK_PM_CACHE_DEFAULT, .max_open = 16384, .max_sends = 5,                  \
		.linger_ns = 15000000000,                                                          \
	}

#define RSK_PM_CLIENT_COUNTERS(X)                                                                  \
	X(asked, "questions")                                                                      \
	X(cached, "of them, answered from memory")                                                 \
	X(shared, "of them, that another one's transaction answers")                               \
	X(sends, "PMReq sent, the first of each")                                                  \
	X(repeats, "PMReq sent again")                                                             \
	X(mapped, "PMAccept")                                                                      \
	X(refused, "PMDeny")                                                                       \
	X(unanswered, "given up")                                                                  \
	X(acks_again, "PMAccept that came again")                                                  \
	X(strays, "answers that match no transaction")                                             \
	X(malformed, "datagrams that are none of the protocol's")

struct rsk_pm_client_counters {
#define RSK_PM_CLIENT_FIELD(name, text) uint64_t name;
	RSK_PM_CLIENT_COUNTERS(RSK_PM_CLIENT_FIELD)
#undef RSK_PM_CLIENT_FIELD
};

struct rsk_pm_transaction;

/* Owns its transactions. */
struct rsk_pm_client {
	struct rsk_pm_client_config config;
	const struct rsk_pm_client_ops *ops;
	void *ctx;
	struct rsk_pm_cache cache;
	struct rsk_pm_transaction *by_handle;	/* uthash: open and lingering */
	struct rsk_pm_transaction *by_question; /* uthash: open, of services */
	struct rsk_deadlines timers;
	uint32_t open;
	struct rsk_pm_client_counters count;
};

/* @ops and @ctx are borrowed for its life. */
void rsk_pm_client_init(struct rsk_pm_client *c, const struct rsk_pm_client_config *config,
			const struct rsk_pm_client_ops *ops, void *ctx);
/* Nobody is told any more. */
void rsk_pm_client_fini(struct rsk_pm_client *c);

/*
 * Asks the PMSP at @to. @req is a PMReq without a handle. CpPort 0 asks for a service mapping, which may be known or
 * under way already; else for one connection, always anew. Anything but PENDING is the answer (MAPPED fills in *out,
 * and done() is not called); PENDING: done() brings it, with @user. -EINVAL, -ENOMEM, -EBUSY (too many are open).
 */
int rsk_pm_client_ask(struct rsk_pm_client *c, const struct rsk_pm_msg *req,
		      const struct rsk_pm_addr *to, void *user, uint64_t now_ns,
		      struct rsk_pm_mapping *out);

/* @user is not interested any more; its transaction goes on, others may wait for it. */
void rsk_pm_client_cancel(struct rsk_pm_client *c, const void *user);

/* The link to the RDMA address of this service was refused: counts as PMDeny. */
void rsk_pm_client_link_refused(struct rsk_pm_client *c, const struct rsk_pm_msg *req,
				uint64_t now_ns);

/* A datagram that came from there. 0; -EBADMSG; -EOPNOTSUPP: a PMReq or PMAck, which is the PMSP's. */
int rsk_pm_client_receive(struct rsk_pm_client *c, const struct rsk_pm_addr *from,
			  const void *datagram, size_t bytes, uint64_t now_ns);

static inline uint64_t rsk_pm_client_next(const struct rsk_pm_client *c)
{
	return rsk_deadlines_next(&c->timers);
}
void rsk_pm_client_tick(struct rsk_pm_client *c, uint64_t now_ns);

bool rsk_pm_client_validate(const struct rsk_pm_client *c);

#endif
