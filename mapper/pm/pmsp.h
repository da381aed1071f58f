/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmsp.h - the port mapping service provider: answers PMReq for an AP, and holds what it granted
 * for the time that it announced. Used by rsockd. A pure state machine: the caller passes
 * datagrams, the time and decisions; it never blocks.
 *
 *	PMReq --decide()--> ASKED (the agent answers later) --> OFFERED: PMAccept sent, and again
 *		until it is acknowledged
 *	OFFERED --PMAck--> HELD: the port may be used until PmTime is over
 *	OFFERED or HELD --link of that connection arrives--> used, and done
 *	any --time--> released
 *	any --PMReq of another AssocHandle for the same connection--> released, decided anew
 *
 * Source: JP4000331B2 / US20060045098; layout and timing that a stock iwpmd understands. One
 * thread.
 */
#ifndef RSK_PMSP_H
#define RSK_PMSP_H

#include "pm_rate.h"
#include "pm_table.h"

enum rsk_pmsp_verdict {
	RSK_PMSP_ACCEPT,
	RSK_PMSP_DENY,
	RSK_PMSP_WAIT,	 /* rsk_pmsp_decided() follows */
	RSK_PMSP_SILENT, /* another host answers */
};

/* What a decision holds for a request. */
struct rsk_pmsp_grant {
	uint64_t id;	   /* the decider's id, not 0 */
	uint8_t ip[16];	   /* the RDMA address */
	uint16_t port;	   /* and listen port */
	uint8_t ipv;	   /* of the request; set by the PMSP */
	uint8_t pm_time_s; /* 0: this transaction only */
	/* For the decider: a process listens there already */
	bool own_port;
};

struct rsk_pmsp_ops {
	/*
	 * *grant: all zero, or what is held for this very request, which came again. ACCEPT: the
	 * decider fills it in; if the id differs from the held one, it has released the former. Any
	 * other verdict: nothing is held except what was passed in, which release() takes back.
	 */
	enum rsk_pmsp_verdict (*decide)(void *ctx, const struct rsk_pm_msg *req,
					const struct rsk_pm_addr *from,
					struct rsk_pmsp_grant *grant);
	/* The CP uses the grant: the PMSP forgets it, and the session owns it from now on. */
	void (*used)(void *ctx, const struct rsk_pmsp_grant *grant);
	void (*release)(void *ctx, const struct rsk_pmsp_grant *grant);
	void (*send)(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes);
};

struct rsk_pmsp_config {
	/* Maximum of transactions; memory: rsk_pm_table_bytes_each() */
	size_t max_open;
	uint64_t accept_ns; /* how long a PMAccept without PmTime is valid */
	uint64_t ask_ns;    /* how long an agent may take; then PMDeny */
	/* Time after which an unacknowledged PMAccept is sent again */
	uint64_t resend_ns;
	uint8_t resends;     /* how often */
	uint32_t rate_per_s; /* maximum PMReq of one source; 0: no limit */
	uint32_t burst;
	uint64_t seed; /* random */
};

/*
 * iwpmd gives a transaction ten seconds and waits one before it repeats. Repeating less often than
 * iwpmd is enough, because a CP that has not received a PMAccept asks again. 65536 open
 * transactions cost 16 MB.
 */
#define RSK_PMSP_DEFAULT                                                                           \
	{                                                                                          \
		.max_open = 65536, .accept_ns = 10000000000, .ask_ns = 2000000000,                 \
		.resend_ns = 1000000000, .resends = 2, .rate_per_s = 1000, .burst = 2000,          \
	}

#define RSK_PMSP_COUNTERS(X)                                                                       \
	X(requests, "PMReq received")                                                              \
	X(duplicates, "of these, repeated ones")                                                   \
	X(accepts, "PMAccept sent, not counting repetitions")                                      \
	X(denies, "PMDeny sent")                                                                   \
	X(acks, "expected PMAck received")                                                         \
	X(links, "links that arrived as announced")                                                \
	X(refused, "links that were not announced")                                                \
	X(repeats, "PMAccept sent again")                                                          \
	X(expired, "mappings released unused")                                                     \
	X(replaced, "transactions dropped for a newer one of the same connection")                 \
	X(evicted, "unacknowledged transactions dropped because the table was full")               \
	X(full, "PMReq dropped because the table was full of acknowledged ones")                   \
	X(limited, "PMReq dropped because their source sent too many")                             \
	X(strays, "unexpected PMAck received")                                                     \
	X(malformed, "datagrams that are not of the protocol")

struct rsk_pmsp_counters {
#define RSK_PMSP_FIELD(name, text) uint64_t name;
	RSK_PMSP_COUNTERS(RSK_PMSP_FIELD)
#undef RSK_PMSP_FIELD
};

/* Owns its table and timers. */
struct rsk_pmsp {
	struct rsk_pmsp_config config;
	const struct rsk_pmsp_ops *ops;
	void *ctx;
	struct rsk_pm_table table;
	struct rsk_deadlines timers;
	struct rsk_pm_rate rate;
	struct rsk_pmsp_counters count;
};

/*
 * @ops and @ctx are borrowed until fini. Returns 0, -EINVAL (a time or a number is 0) or -ENOMEM.
 */
int rsk_pmsp_init(struct rsk_pmsp *p, const struct rsk_pmsp_config *config,
		  const struct rsk_pmsp_ops *ops, void *ctx);
/* Releases everything that is held. */
void rsk_pmsp_fini(struct rsk_pmsp *p);

/*
 * Handles a datagram from that address. Returns 0; -EBADMSG: not of the protocol; -EOPNOTSUPP: a
 * PMAccept or PMDeny, which is for the PM client.
 */
int rsk_pmsp_receive(struct rsk_pmsp *p, const struct rsk_pm_addr *from, const void *datagram,
		     size_t bytes, uint64_t now_ns);

/*
 * Prefetches memory for a batch of datagrams that rsk_pmsp_receive() will be given next: with a
 * large table most of the time is spent waiting for memory. Any number; it affects only the speed.
 */
struct rsk_pmsp_coming {
	const void *datagram;
	size_t bytes;
};
void rsk_pmsp_prepare(const struct rsk_pmsp *p, const struct rsk_pmsp_coming *coming, size_t n);

/*
 * Gives the verdict that decide() left open (WAIT), with @req as decide() got it. Returns true if
 * the transaction still exists.
 */
bool rsk_pmsp_decided(struct rsk_pmsp *p, const struct rsk_pm_msg *req,
		      enum rsk_pmsp_verdict verdict, const struct rsk_pmsp_grant *grant,
		      uint64_t now_ns);

/*
 * A link to @rdma arrives, for the connection whose PMReq had this name: @link gives AssocHandle,
 * CpIPaddr, CpPort (not 0), ApIPaddr and ApPort. The granted address must be @rdma, and the link's
 * source @source (all zero: not known yet). Returns the grant, which the session owns from now on;
 * 0: it was not announced, refuse it.
 * @announced: the source that the PMReq has named, the mapped CpIPaddr or CpIPaddr; all zero if
 * no such link was announced.
 */
uint64_t rsk_pmsp_link_named(struct rsk_pmsp *p, const struct rsk_pm_msg *link,
			     const struct rsk_pm_addr *rdma, const uint8_t source[static 16],
			     uint8_t announced[static 16]);

/* When rsk_pmsp_tick() must be called next; UINT64_MAX: never. */
static inline uint64_t rsk_pmsp_next(const struct rsk_pmsp *p)
{
	return rsk_deadlines_next(&p->timers);
}
void rsk_pmsp_tick(struct rsk_pmsp *p, uint64_t now_ns);

bool rsk_pmsp_validate(const struct rsk_pmsp *p);

#endif
