/* SPDX-License-Identifier: BSD-2-Clause */
/* local_parts.h - what local.c, local_process.c, local_rendezvous.c, rails.c and port_tables.c share; nobody else includes this. */
#ifndef RSK_LOCAL_PARTS_H
#define RSK_LOCAL_PARTS_H

#include <stdbool.h>

#include "agent.h"
#include "local.h"
#include "map.h"
#include "pm_hash.h"
#include "pma.h"
#include <rsock/reason.h>

struct rsk_local_user {
	uint32_t uid;
	size_t n;	 /* processes */
	size_t asked;	 /* questions to the port mapper that are open, or wait for their turn */
	size_t rails;	 /* of them, such as accept rails, or will */
	size_t foreign;	 /* descriptors that they passed, and that are no statistics */
	uint64_t at_ns;	 /* left_ns is of then */
	int64_t left_ns; /* that may go into what its processes say */
	struct rsk_local_process *put_off; /* list: those that are not listened to for now */
	UT_hash_handle hh;
};

/* One connection to the socket; a process that comes again is another one. */
struct rsk_local_process {
	uint32_t number;
	struct rsk_local *l;
	int fd;
	int32_t pid; /* as the kernel says: of who connected */
	uint32_t uid;
	struct event *event;
	struct rsk_local_user *user;
	struct rsk_local_process *prev, *next; /* of those put off */
	bool is_put_off;
	struct rsk_streams_segment *segment; /* NULL: none */
	size_t asked;			     /* questions to the port mapper that are open */
	struct rsk_local_question *waiting;  /* list: those whose turn is to come */
	size_t n_waiting;
	bool asks;     /* the next of them is being asked just now */
	uint16_t rail; /* port at which it accepts rails; 0: none */
	bool able;     /* it will, once a stream of it is wanted from elsewhere */
	struct rsk_port_tables_one *port_table; /* NULL: it has none */
	uint32_t holder;			/* its number there */
	UT_hash_handle hh;
};

/* ---- local_process.c ---- */

struct rsk_local_process *rsk_local_process(const struct rsk_local *l, uint32_t number);

/* False: it did not get it, for it does not read, or is gone. @fd -1: none goes with it. */
bool rsk_local_tell(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_msg *m,
		    int fd);

/* Is the socket, by the kernel's word, what it says, and its user's? RSK_REASON_DIRECT: yes; else why not. */
enum rsk_reason rsk_local_proof(const struct rsk_local *l, const struct rsk_local_process *p,
				const struct rsk_local_msg *m);

/* What an answer of the policy agent means for a stream. */
enum rsk_reason rsk_local_verdict(enum rsk_pma_verdict verdict);

/* ---- rails.c, local_rendezvous.c ---- */

/* rails.c: flags of HELLO; checked RDMA, LINK, UNLINK. */
void rsk_local_able(struct rsk_local *l, struct rsk_local_process *p, bool able);
void rsk_local_rdma(struct rsk_local *l, struct rsk_local_process *p,
		    const struct rsk_local_msg *m);
void rsk_local_link(struct rsk_local *l, struct rsk_local_process *p,
		    const struct rsk_local_msg *m);
void rsk_local_unlink(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m);
/* A mapping was answered to it: held until it makes use of it. False: there is no room for that. */
bool rsk_local_promise(struct rsk_local *l, const struct rsk_local_process *p, uint64_t link,
		       uint64_t cookie, uint64_t reservation);
void rsk_local_rails_open(struct rsk_local *l);
void rsk_local_rails_gone(struct rsk_local *l, struct rsk_local_process *p);
void rsk_local_rails_close(struct rsk_local *l);

/* local_rendezvous.c: a checked SEEK. */
void rsk_local_lookup(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_local_msg *m);

/* The same: it has room for answers again, perhaps; the next of its ends are asked for. */
void rsk_local_lookup_on(struct rsk_local *l, struct rsk_local_process *p);

/* The same: it is gone. */
void rsk_local_lookup_over(struct rsk_local_process *p);

/* The same: a checked ASK. */
void rsk_local_resolve(struct rsk_local *l, struct rsk_local_process *p,
		       const struct rsk_local_msg *m);

#endif
