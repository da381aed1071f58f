/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_parts.h - one link to another host, as the keeper sees it; shared by remote*.c. Keeper only, but what says
 * so.
 */
#ifndef RSK_REMOTE_PARTS_H
#define RSK_REMOTE_PARTS_H

#include "control.h"
#include "rdma.h"
#include "remote.h"
#include "ringway.h"

enum rsk_remote_state {
	RSK_REMOTE_GREETING, /* HELLO is sent, or is being looked into */
	RSK_REMOTE_RAILING,  /* both know each other; the rail is being made */
	RSK_REMOTE_UP,
	RSK_REMOTE_BROKEN, /* was up: the rail is made anew */
	RSK_REMOTE_DEAD,   /* to be forgotten */
};

struct rsk_remote {
	struct rsk_control control; /* first: container of its callbacks */
	struct rsk_watch pair;	    /* our end of the link's control socket; fd -1: none */
	struct rsk_remote *prev, *next;
	enum rsk_remote_state state;
	bool initiator;
	uint64_t nonce, secret;
	struct rsk_seg_geometry geometry; /* of who has said HELLO */
	struct rsk_remote_target target;  /* initiator: where to; else tuple and handle only */
	struct rsk_link
		*l; /* NULL: not let in yet; from RSK_REMOTE_UP on also in links.c, until let_go */
	struct rsk_verbs_addr here; /* not the initiator: the address of ours that was come to */
	bool listed;		    /* links.c knows it */
	struct rsk_verbs_rail *rail;
	uint32_t epoch;
	bool established;	   /* the rail of this epoch, here */
	bool heard;		   /* the peer's RAIL of this epoch: */
	struct rsk_verbs_end peer; /* */
	bool dialing;		   /* rail_connect() is under way */
	uint32_t tries;
	uint64_t due_ns;  /* when something is given up, or tried again; UINT64_MAX */
	uint32_t verdict; /* of rsockd: 0 none yet; else enum rsk_reason + 1. Under the join lock */
	bool waits_verdict;	  /* under the join lock */
	struct rsk_link_msg held; /* for the engine, which had no room; control is paused */
	bool holds;
	bool more;     /* what came for the engine was not read to its end */
	bool told_end; /* of this time that the process is about to end */
	bool heeds;    /* streams of it have words on their way that cannot wait */
	struct rsk_ringways ways;
	uint64_t rings_ns, register_ns, probe_ns; /* when the next of these is due; UINT64_MAX */
	uint64_t idle_ns;			  /* since when no stream has it; 0: one has */
};

/* A rail on which nothing comes is asked whether its peer is still there: so often. */
#define RSK_REMOTE_PROBE_NS 1000000000ull

#define RSK_REMOTE_GIVE_UP_NS 10000000000ull /* a link that is not up by then is none */

/* All of them; changed by the keeper, under the join lock. */
extern struct rsk_remotes {
	struct rsk_remote *all;
	uint32_t strangers; /* who have come and were not let in yet */
	struct rsk_watch listener;
	struct rsk_watch work; /* the module's */
} rsk_remotes;

/* remote_office.c: hears it from now on, as long as it is there. */
void rsk_remote_mind_office(void);

/* The same: what has come for the engine is read, and who waits for a turn to ask has it. */
void rsk_remote_hear(struct rsk_remote *r);

/* wants.c: what the engine wants next, taken; false: nothing. What became of it: join lock held. */
bool rsk_want_next(uint64_t now_ns, uint64_t *nonce, struct rsk_remote_target *target);
void rsk_want_up(uint64_t nonce);
void rsk_want_gone(uint64_t nonce, int err);
void rsk_wants_forget(void); /* in a child */

/* greet.c */
void rsk_greet_begin(uint64_t nonce, const struct rsk_remote_target *target);
void rsk_greet_knocks(struct rsk_watch *w, uint32_t events); /* somebody is at the door */
void rsk_greet_hello(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_greet_welcome(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_greet_let_in(struct rsk_remote *r); /* if rsockd has spoken */

struct rsk_remote *rsk_remote_new(bool initiator);
void rsk_remote_dead(struct rsk_remote *r, int why);

/* remote_rail.c */
void rsk_remote_rail_begin(struct rsk_remote *r); /* initiator: to the peer's RNIC */
void rsk_remote_rail_up(struct rsk_remote *r);
void rsk_remote_rail_down(struct rsk_remote *r, int err);
void rsk_remote_on_rail(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_break(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_resume(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_ring(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_ring_req(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_want_ring(struct rsk_remote *r,
			  uint32_t sid); /* a stream of it is joined: its ring is wanted */
void rsk_remote_rings_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_remote_rings_next(const struct rsk_remote *r);
/* It has had no stream for long: taken from the engine, and may die. */
bool rsk_remote_unused(struct rsk_remote *r, uint64_t now_ns);

#endif
