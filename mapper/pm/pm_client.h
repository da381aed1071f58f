/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_client.h - the PM client: asks a PMSP for the RDMA address of a service, for one connecting
 * peer or, as a proxy, for many. Used by rsockd. A pure state machine: the caller passes datagrams,
 * the time and random numbers; it never blocks.
 *
 *	ask --known, or the host is silent--> answered at once
 *	ask --> OPEN: PMReq sent; repeated unchanged when the timer fires, after twice the time each
 *	OPEN --PMAccept--> PMAck to where it came from, MAPPED
 *	OPEN --PMDeny--> REFUSED
 *	OPEN --the last timer--> NO_ANSWER
 *
 * The first answer wins. For some time after it a repeated PMAccept is acknowledged again, because
 * the PMSP has not received the PMAck. Any other message matches nothing and is dropped. Source: as
 * pmsp.h. One thread.
 */
#ifndef RSK_PM_CLIENT_H
#define RSK_PM_CLIENT_H

#include "deadline.h"
#include "pm_cache.h"

struct rsk_pm_client_ops {
	/* Returns a random number, never 0 and not a counter. */
	uint64_t (*random)(void *ctx);
	void (*send)(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes);
	/* The answer for @user; @m is set if it is MAPPED. May call rsk_pm_client_ask(). */
	void (*done)(void *ctx, void *user, enum rsk_pm_outcome outcome,
		     const struct rsk_pm_mapping *m);
	/* True if a cached mapping may still be used: asks the policy agent. NULL: always. */
	bool (*holds)(void *ctx, const struct rsk_pm_msg *req, const struct rsk_pm_mapping *m);
};

struct rsk_pm_client_config {
	struct rsk_pm_cache_config cache;
	uint32_t max_open;  /* maximum of open transactions */
	uint8_t max_sends;  /* maximum of sends of one PMReq, the first included */
	uint64_t linger_ns; /* how long a repeated PMAccept is acknowledged */
};

/*
 * 250 ms doubled four times: gives up after 7.75 s if nothing is known of the host, less than
 * iwpmd's ten.
 */
#define RSK_PM_CLIENT_DEFAULT                                                                      \
	{                                                                                          \
		.cache = RSK_PM_CACHE_DEFAULT, .max_open = 16384, .max_sends = 5,                  \
		.linger_ns = 15000000000,                                                          \
	}

#define RSK_PM_CLIENT_COUNTERS(X)                                                                  \
	X(asked, "requests for a mapping")                                                         \
	X(cached, "of these, answered from the cache")                                             \
	X(shared, "of these, answered by another one's transaction")                               \
	X(outdated, "cached mappings that the policy agent did not let hold")                      \
	X(sends, "PMReq sent, not counting repetitions")                                           \
	X(repeats, "PMReq sent again")                                                             \
	X(mapped, "PMAccept received")                                                             \
	X(refused, "PMDeny received")                                                              \
	X(unanswered, "transactions given up without an answer")                                   \
	X(acks_again, "repeated PMAccept received")                                                \
	X(strays, "answers that match no transaction")                                             \
	X(malformed, "datagrams that are not of the protocol")

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
	struct rsk_pm_transaction *by_handle;	/* hash table: open and lingering transactions */
	struct rsk_pm_transaction *by_question; /* hash table: open transactions for services */
	struct rsk_deadlines timers;
	uint32_t open;
	struct rsk_pm_client_counters count;
};

/* @ops and @ctx are borrowed until fini. */
void rsk_pm_client_init(struct rsk_pm_client *c, const struct rsk_pm_client_config *config,
			const struct rsk_pm_client_ops *ops, void *ctx);
/* Frees everything; done() is not called. */
void rsk_pm_client_fini(struct rsk_pm_client *c);

/*
 * Asks the PMSP at @to. @req is a PMReq without a handle. CpPort 0 asks for a service mapping,
 * which may be known or in progress already; any other port asks for one connection, always with a
 * new transaction. Returns PENDING: done() will be called with @user; any other outcome is the
 * answer (MAPPED fills in *out, and done() is not called); -EINVAL, -ENOMEM, -EBUSY (too many are
 * open).
 */
int rsk_pm_client_ask(struct rsk_pm_client *c, const struct rsk_pm_msg *req,
		      const struct rsk_pm_addr *to, void *user, uint64_t now_ns,
		      struct rsk_pm_mapping *out);

/*
 * done() is not called for @user any more; the transaction goes on, because others may wait for it.
 */
void rsk_pm_client_cancel(struct rsk_pm_client *c, const void *user);

/*
 * Handles a datagram from that address. Returns 0; -EBADMSG; -EOPNOTSUPP: a PMReq or PMAck, which
 * is for the PMSP.
 */
int rsk_pm_client_receive(struct rsk_pm_client *c, const struct rsk_pm_addr *from,
			  const void *datagram, size_t bytes, uint64_t now_ns);

static inline uint64_t rsk_pm_client_next(const struct rsk_pm_client *c)
{
	return rsk_deadlines_next(&c->timers);
}
void rsk_pm_client_tick(struct rsk_pm_client *c, uint64_t now_ns);

bool rsk_pm_client_validate(const struct rsk_pm_client *c);

#endif
