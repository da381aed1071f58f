/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmsp.h - the port mapping service provider: answers PMReq for an AP, and holds what it promised for as long as it
 * said. A pure machine: datagrams, the clock and decisions are handed in; it never blocks.
 *
 *	PMReq --decide()--> ASKED (the agent answers later) --> OFFERED: PMAccept sent, and again
 *		until it is acknowledged
 *	OFFERED --PMAck--> HELD: the port may be used until PmTime is over
 *	OFFERED or HELD --link arrives--> used, and done; a service mapping with PmTime serves others until that is over
 *	any --time--> released;   any --PMReq of another AssocHandle for the same connection--> released, asked anew
 *
 * Source: JP4000331B2 / US20060045098; layout and timing that a stock iwpmd understands. One thread.
 */
#ifndef RSK_PMSP_H
#define RSK_PMSP_H

#include "pm_rate.h"
#include "pm_table.h"

enum rsk_pmsp_verdict {
	RSK_PMSP_ACCEPT,
	RSK_PMSP_DENY,
	RSK_PMSP_WAIT,	 /* rsk_pmsp_decided() will tell */
	RSK_PMSP_SILENT, /* somebody else answers */
};

/* What a decision holds for a request. */
struct rsk_pmsp_grant {
	uint64_t id;	   /* the decider's name of it, not 0 */
	uint8_t ip[16];	   /* the RDMA address */
	uint16_t port;	   /* and listen port */
	uint8_t ipv;	   /* of the request; the PMSP's to say */
	uint8_t pm_time_s; /* 0: this transaction only */
	bool over_link;	   /* the link exists already: the PMAck alone is its use */
	bool own_port;	   /* the decider's to know: a process listens there already */
};

struct rsk_pmsp_ops {
	/*
	 * *grant: all zero, or what is held for this very request, which came again. ACCEPT: fills it in; if the id is
	 * another than was held, the former is released by then. Any other verdict: nothing is held but what was handed
	 * in, which release() takes back.
	 */
	enum rsk_pmsp_verdict (*decide)(void *ctx, const struct rsk_pm_msg *req,
					const struct rsk_pm_addr *from,
					struct rsk_pmsp_grant *grant);
	/* The CP makes use of it. @last: the PMSP forgets it, it is the session's from now on. False: refuse. */
	bool (*used)(void *ctx, const struct rsk_pmsp_grant *grant, bool last);
	void (*release)(void *ctx, const struct rsk_pmsp_grant *grant);
	void (*send)(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes);
};

struct rsk_pmsp_config {
	size_t max_open;     /* transactions at once; memory: rsk_pm_table_bytes_each() */
	uint64_t accept_ns;  /* how long a PMAccept without PmTime holds */
	uint64_t ask_ns;     /* how long an agent may take; then PMDeny */
	uint64_t resend_ns;  /* a PMAccept that is not acknowledged is sent again after this */
	uint8_t resends;     /* so often */
	uint32_t rate_per_s; /* PMReq of one source; 0: any number */
	uint32_t burst;
	uint64_t seed; /* random */
};

/*
 * Ten seconds are what iwpmd gives a transaction, one what it waits before it repeats; repeating less often than it
 * does is enough, since a CP that did not hear a PMAccept asks again. 65536 open ones cost 16 MB.
 */
#define RSK_PMSP_DEFAULT                                                                           \
	{                                                                                          \
		.max_open = 65536, .accept_ns = 10000000000, .ask_ns = 2000000000,                 \
		.resend_ns = 1000000000, .resends = 2, .rate_per_s = 1000, .burst = 2000,          \
	}

#define RSK_PMSP_COUNTERS(X)                                                                       \
	X(requests, "PMReq taken")                                                                 \
	X(duplicates, "of them, such as came again")                                               \
	X(accepts, "PMAccept sent, repeated ones not counted")                                     \
	X(denies, "PMDeny sent")                                                                   \
	X(acks, "PMAck that were waited for")                                                      \
	X(links, "links that came as announced")                                                   \
	X(refused, "links that nobody announced")                                                  \
	X(repeats, "PMAccept sent again")                                                          \
	X(expired, "mappings released unused")                                                     \
	X(replaced, "transactions dropped for a newer one of the same connection")                 \
	X(evicted, "unacknowledged ones dropped, since the table was full")                        \
	X(full, "PMReq dropped, since the table was full of acknowledged ones")                    \
	X(limited, "PMReq dropped, since their source sends too many")                             \
	X(strays, "PMAck that nobody waited for")                                                  \
	X(malformed, "datagrams that are none of the protocol's")

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

/* @ops and @ctx are borrowed for its life. 0, -EINVAL (a time or a number is 0), -ENOMEM. */
int rsk_pmsp_init(struct rsk_pmsp *p, const struct rsk_pmsp_config *config,
		  const struct rsk_pmsp_ops *ops, void *ctx);
/* Releases all that is held. */
void rsk_pmsp_fini(struct rsk_pmsp *p);

/*
 * A datagram that came from there. 0; -EBADMSG: none of the protocol's; -EOPNOTSUPP: a PMAccept or PMDeny, which is the
 * PM client's.
 */
int rsk_pmsp_receive(struct rsk_pmsp *p, const struct rsk_pm_addr *from, const void *datagram,
		     size_t bytes, uint64_t now_ns);

/*
 * Datagrams that rsk_pmsp_receive() will be given next, of a batch that came together: with a large table most of the
 * time goes into waiting for memory, which this asks for in good time. Any number; no effect but on time.
 */
struct rsk_pmsp_coming {
	const void *datagram;
	size_t bytes;
};
void rsk_pmsp_prepare(const struct rsk_pmsp *p, const struct rsk_pmsp_coming *coming, size_t n);

/* What decide() left open (WAIT): @req as it was handed in. True: the transaction is still there. */
bool rsk_pmsp_decided(struct rsk_pmsp *p, const struct rsk_pm_msg *req,
		      enum rsk_pmsp_verdict verdict, const struct rsk_pmsp_grant *grant,
		      uint64_t now_ns);

/* A link comes to @rdma from @source: the grant that it is let in by; 0: nobody announced it, refuse it. */
uint64_t rsk_pmsp_link(struct rsk_pmsp *p, const struct rsk_pm_addr *rdma,
		       const struct rsk_pm_addr *source);

/*
 * The same of one connection, by the name that its PMReq had: @link says AssocHandle, CpIPaddr, CpPort, ApIPaddr and
 * ApPort of it; what is granted has to be @rdma, and where the link comes from @source, all zero: not known. The grant,
 * which is the session's from now on, or 0.
 */
uint64_t rsk_pmsp_link_named(struct rsk_pmsp *p, const struct rsk_pm_msg *link,
			     const struct rsk_pm_addr *rdma, const uint8_t source[static 16]);

/* When rsk_pmsp_tick() has something to do; UINT64_MAX: never. */
static inline uint64_t rsk_pmsp_next(const struct rsk_pmsp *p)
{
	return rsk_deadlines_next(&p->timers);
}
void rsk_pmsp_tick(struct rsk_pmsp *p, uint64_t now_ns);

bool rsk_pmsp_validate(const struct rsk_pmsp *p);

#endif
