/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local_parts.h - declarations that local.c, the other local_*.c, qos.c, rails.c and port_tables.c
 * share. No other file includes it.
 */
#ifndef RSK_LOCAL_PARTS_H
#define RSK_LOCAL_PARTS_H

#include <stdbool.h>

#include "agent.h"
#include "link_refusals.h"
#include "local.h"
#include "map.h"
#include "pm_hash.h"
#include "pma.h"
#include <rsock/reason.h>

struct rsk_local_user {
	uint32_t uid;
	size_t n; /* number of connected processes */
	/* questions to the port mapper that are open, or that wait for their turn */
	size_t asked;
	size_t rails; /* number of its processes that accept rails or are able to */
	/* messages with descriptors that were not statistics, since no helper process ran */
	size_t foreign;
	uint64_t at_ns;	 /* time at which left_ns was computed */
	int64_t left_ns; /* time in ns that messages of its processes may still take up */
	struct rsk_local_process *put_off; /* list: processes that are not read from for now */
	struct rsk_link_refusals refusals; /* of links that its processes wanted to make */
	uint64_t wrong_ns; /* local_apart.c: in how long its wrong first segments are forgotten */
	UT_hash_handle hh;
};

/* One connection to the socket. A process that connects again is another one. */
struct rsk_local_process {
	uint32_t number;
	struct rsk_local *l;
	int fd;
	int32_t pid; /* of the process that connected, as the kernel reports it */
	uint32_t uid;
	/* In which it connected, as the kernel says: the accepted socket is there, too. */
	uint64_t netns;
	struct event *event;
	struct rsk_local_user *user;
	struct rsk_local_process *prev, *next; /* list of those that are put off */
	bool is_put_off;
	struct rsk_streams_segment *segment; /* NULL: none */
	size_t asked;			     /* open questions to the port mapper */
	struct rsk_local_question *waiting;  /* list: questions that wait for their turn */
	size_t n_waiting;
	bool asks;     /* rsk_local_lookup_on() is running for it */
	uint16_t rail; /* port at which it accepts rails; 0: none */
	/* it will accept rails once one of its streams needs a link to another host */
	bool able;
	char *cgroup;	/* its path; NULL: unknown */
	bool elsewhere; /* it has shown an end in another network namespace than ours */
	struct rsk_port_tables_one *port_table; /* NULL: none */
	uint32_t holder;			/* its number in the port table */
	UT_hash_handle hh;
};

/* ---- local_process.c ---- */

struct rsk_local_process *rsk_local_process(const struct rsk_local *l, uint32_t number);

/*
 * Sends @m, with descriptor @fd (-1: none). False: it was not sent, because the process does not
 * read its messages or has exited.
 */
bool rsk_local_tell(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_msg *m,
		    int fd);

/* Tells the process why its end has no peer, or no mapping. */
void rsk_local_answer(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_rendezvous_table_end *end, enum rsk_reason why);

/*
 * Asks the kernel whether the socket is the one that the message names, and of the process's user.
 * RSK_REASON_DIRECT: it is; else the reason why not.
 */
enum rsk_reason rsk_local_proof(const struct rsk_local *l, const struct rsk_local_process *p,
				const struct rsk_local_msg *m);

/* Converts a verdict of policy into the reason that a stream's process is told. */
enum rsk_reason rsk_local_verdict(enum rsk_pma_verdict verdict);

/* ---- local_user.c ---- */

/*
 * Whether another process of the user may connect: limits each user, so that a hostile one cannot
 * keep others out. *user: its account, a new one if need be, if the answer is true.
 */
bool rsk_local_user_room(struct rsk_local *l, uint32_t uid, struct rsk_local_user **user);

/* Credits the user with a part of the time that has passed. True if there is time left. */
bool rsk_local_user_has_share(struct rsk_local_user *u, uint64_t now_ns);

/*
 * CPU time of this thread and of helper processes that it waited for: a busy machine does not
 * reduce a user's share.
 */
uint64_t rsk_local_worked_ns(void);

/*
 * Charges the user for the work since @began_ns, a result of rsk_local_worked_ns(). Returns the
 * present one.
 */
uint64_t rsk_local_user_charge(struct rsk_local_user *u, uint64_t began_ns);

/*
 * When no helper process runs, no message blocks one: a user whose programs pass wrong descriptors
 * by mistake is not ignored for longer than that.
 */
void rsk_local_users_forgive(struct rsk_local *l);

/* A user's account outlives the user's processes, so that reconnecting does not refill it. */
void rsk_local_users_forget(struct rsk_local *l);

/* ---- local_ask.c ---- */

/*
 * Asks the port mapper about @end, or about its service if it has no local port, and tells the
 * process the answer unless @quiet. Asks nothing, and tells nothing, if there are too many
 * questions.
 */
void rsk_local_ask(struct rsk_local *l, struct rsk_local_process *p,
		   const struct rsk_rendezvous_table_end *end, bool quiet);

/* Whether a question about the stream whose connecting end is that socket is open. */
bool rsk_local_asks_of(const struct rsk_local *l, uint64_t cookie);

/* The process may have room for another answer; starts its next questions. */
void rsk_local_lookup_on(struct rsk_local *l, struct rsk_local_process *p);

/* The process has exited. */
void rsk_local_lookup_over(struct rsk_local_process *p);

/* The peer end, if it is on this host and waits in the rendezvous table. */
const struct rsk_rendezvous_table_end *
rsk_local_waits_here(const struct rsk_local *l, const struct rsk_rendezvous_table_end *end);

/* ---- rails.c, local_rendezvous.c ---- */

/* rails.c: the flags of HELLO; checked messages RDMA, LINK, UNLINK. */
void rsk_local_able(struct rsk_local *l, struct rsk_local_process *p, bool able);
void rsk_local_rdma(struct rsk_local *l, struct rsk_local_process *p,
		    const struct rsk_local_msg *m);
void rsk_local_link(struct rsk_local *l, struct rsk_local_process *p,
		    const struct rsk_local_msg *m);
void rsk_local_unlink(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m);
/*
 * A mapping was answered to the process, for its end @end: holds the reservation until a stream
 * uses it. False: there is no room.
 */
bool rsk_local_promise(struct rsk_local *l, const struct rsk_local_process *p, uint64_t link,
		       const struct rsk_rendezvous_table_end *end, uint64_t reservation);
void rsk_local_rails_open(struct rsk_local *l);
void rsk_local_rails_gone(struct rsk_local *l, struct rsk_local_process *p);
void rsk_local_rails_close(struct rsk_local *l);

/*
 * qos.c: tells the process which differentiated service its session of that mapping gets, unless
 * that is what it was told last; and the same for all sessions, if policy or load have changed.
 */
void rsk_local_qos(struct rsk_local *l, struct rsk_local_process *p, uint64_t link);
void rsk_local_qos_sweep(struct rsk_local *l);

/* ---- local_vouch.c ---- */

/* What decides whether a process may share memory with another one. */
struct rsk_local_party {
	uint32_t uid;
	const char *cgroup; /* borrowed from its process; NULL: unknown, which no entry names */
	bool any_cgroup;    /* its process has not come yet: each entry may name it */
};

struct rsk_local_party rsk_local_party(const struct rsk_local_process *p);
/* Reads the control group of a process that has just connected. */
void rsk_local_vouch_learn(struct rsk_local_process *p);
/*
 * Whether they are of one user, or the operator allows it, for that service port; the same for two
 * ends that wait. @apart: in two network namespaces, or known by the first segment alone: that both
 * are root is not enough then.
 */
bool rsk_local_may_rendezvous(const struct rsk_local *l, const struct rsk_local_party *one,
			      const struct rsk_local_party *other, uint16_t service);
bool rsk_local_may_introduce(const struct rsk_local *l, const struct rsk_rendezvous_table_end *one,
			     const struct rsk_rendezvous_table_end *other, bool apart);

/* local_rendezvous.c: whether both were told. */
bool rsk_local_introduce(struct rsk_local *l, const struct rsk_rendezvous_table_end *a,
			 const struct rsk_rendezvous_table_end *b);

/*
 * local_apart.c: whether ends in other network namespaces are looked for, by the configuration.
 * Looks for the other end by the first segment of a checked LOOKUP: true if nothing else is to be
 * done for it now. Tells a process that its end would be, or is to be, found by that.
 */
void rsk_local_apart_reloaded(struct rsk_local *l);
bool rsk_local_lookup_apart(struct rsk_local *l, struct rsk_local_process *p,
			    const struct rsk_local_msg *m,
			    const struct rsk_rendezvous_table_end *end);
void rsk_local_ask_syn(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_rendezvous_table_end *end);

/* local_rendezvous.c: a checked LOOKUP. */
void rsk_local_lookup(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m);

/* local_rendezvous.c: a checked RESOLVE. */
void rsk_local_resolve(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_local_msg *m);

#endif
