/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_parts.h - one link to another host, as the keeper sees it; shared by remote*.c. Keeper only, but what says
 * so.
 */
#ifndef RSK_REMOTE_PARTS_H
#define RSK_REMOTE_PARTS_H

#include "control_conn.h"
#include "mailbox.h"
#include "rails.h"
#include "rdma.h"
#include "remote.h"
#include "link_requests.h"
#include "ring_registration.h"
#include "port_reservations.h"

enum rsk_remote_state {
	RSK_REMOTE_HANDSHAKING, /* HELLO is sent, or is being looked into */
	RSK_REMOTE_RAILING,	/* both know each other; the rail is being made */
	RSK_REMOTE_UP,
	RSK_REMOTE_BROKEN, /* was up: the rail is made anew */
	RSK_REMOTE_DEAD,   /* to be forgotten */
};

struct rsk_remote;

enum rsk_remote_rail_state {
	RSK_REMOTE_RAIL_IDLE,
	RSK_REMOTE_RAIL_COMING, /* dialed, come to, or established here and not yet known to be so there */
	RSK_REMOTE_RAIL_UP,
	RSK_REMOTE_RAIL_LOST /* of several: what has come by it is not known at both ends yet (rail_failure.c) */
};

/* One of the rails of a link. */
struct rsk_remote_rail {
	struct rsk_remote *r;
	uint32_t index;
	enum rsk_remote_rail_state state;
	struct rsk_verbs_rail *rail;	/* NULL: there never was one */
	struct rsk_rail puts;		/* what r->rails puts by */
	struct rsk_verbs_addr from, to; /* initiator; to.family 0: no way is known */
	struct rsk_verbs_addr is_from;	/* when it was up last */
	uint32_t generation;		/* counts its queue pairs */
	uint32_t told_generation;	/* the newest of which it was said what is missing */
	uint32_t heard_generation;	/* the newest of which the other end has said so, */
	uint64_t heard_turn;		/* and which of those messages comes next */
	uint32_t tcp_generation; /* the newest of which the control connection has brought all of that */
	uint32_t epoch;		 /* of the link that this one is for */
	uint32_t early_epoch,
		early_generation; /* LOST was heard of that, for which the link is not up here yet; 0: none */
	bool unfit; /* no control block can be registered there: no rail to do without others by */
	bool established;	   /* here */
	bool heard;		   /* the peer's RAIL of this life: */
	struct rsk_verbs_end peer; /* */
	uint32_t tries;
	uint64_t due_ns; /* when it is tried again, or given up; UINT64_MAX */
	struct rsk_ring_regs ways;
	uint64_t rings_ns, register_ns, probe_ns; /* when the next of these is due; UINT64_MAX */
	struct rsk_mailbox_reader status; /* how the peer finds the link, obtained by this rail */
	uint32_t port;			  /* ours, on rsockd's board, and what is reserved of it */
	struct rsk_reservation reservation; /* */
	uint32_t looks;			    /* at the board, since it is up */
};

struct rsk_remote {
	struct rsk_control_conn control; /* first: container of its callbacks */
	struct rsk_watch pair;		 /* our end of the link's control socket; fd -1: none */
	struct rsk_remote *prev, *next;
	enum rsk_remote_state state;
	bool initiator;
	uint64_t nonce, secret;
	struct rsk_seg_geometry geometry; /* of who has said HELLO, */
	struct rsk_order_form form;	  /* and of his marks */
	struct rsk_remote_target target;  /* initiator: where to; else tuple and handle only */
	struct rsk_link
		*l; /* NULL: not let in yet; from RSK_REMOTE_UP on also in links.c, until let_go */
	struct rsk_verbs_addr here; /* not the initiator: the address of ours that was come to */
	bool listed;		    /* links.c knows it */
	struct rsk_remote_rail rail[RSK_RAILS_MOST];
	struct rsk_rails rails; /* what the streams put by */
	uint32_t epoch;		/* counts the times that the link came up */
	struct rsk_verbs_device_addr
		theirs[RSK_REMOTE_CANDIDATES]; /* initiator: where the peer has devices */
	uint32_t candidates;
	bool match_due;	     /* those are new, or ours */
	uint32_t rails_most; /* initiator: that the peer lets in */
	bool candidates_due; /* a device came or went: they are looked at again */
	bool soft[2]; /* initiator: the first rail's devices, ours and theirs, are software */
	bool ports_changed, ports_checked; /* since this link was looked after */
	bool active; /* there is a rail by a port of ours that is no spare one, as far as it was looked after */
	uint64_t due_ns;  /* when it is given up; UINT64_MAX */
	uint32_t verdict; /* of rsockd: 0 none yet; else enum rsk_reason + 1. Under the join lock */
	bool waits_verdict;	  /* under the join lock */
	struct rsk_link_msg held; /* for the engine, which had no room; control is paused */
	bool holds;
	bool more;		      /* what came for the engine was not read to its end */
	bool told_end;		      /* of this time that the process is about to end */
	bool applies;		      /* streams of it have words on their way that cannot wait */
	uint64_t idle_ns;	      /* since when no stream has it; 0: one has */
	struct rsk_mailbox status;    /* how this end finds the link, */
	struct rsk_mailbox_link said; /* as last published, */
	struct rsk_key status_key[2]; /* under the first; the second is the peer's */
	struct rsk_credits *credits;  /* credit.c; NULL: no ring of it was ever full */
};

/* A rail on which nothing comes is asked whether its peer is still there: so often. */
#define RSK_REMOTE_PROBE_NS 1000000000ull

#define RSK_REMOTE_GIVE_UP_NS 10000000000ull /* a link that is not up by then is none */

/* All of them; changed by the keeper, under the join lock. */
extern struct rsk_remotes {
	struct rsk_remote *all;
	uint32_t pending_peers; /* who have come and were not let in yet */
	struct rsk_watch listener;
	struct rsk_watch work; /* the module's */
} rsk_remotes;

/* daemon_inbox.c: hears it from now on, as long as it is there. */
void rsk_remote_watch_daemon(void);

/* The same: what has come for the engine is read, and who waits for a turn to ask has it. */
void rsk_remote_hear(struct rsk_remote *r);

/* link_handshake.c */
void rsk_link_handshake_begin(uint64_t nonce, const struct rsk_remote_target *target);
void rsk_link_handshake_accept(struct rsk_watch *w, uint32_t events); /* somebody is at the door */
void rsk_link_handshake_hello(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_link_handshake_welcome(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_link_handshake_admit(struct rsk_remote *r); /* if rsockd has spoken */

/* remote.c: what the keeper at the other end says */
void rsk_remote_message(struct rsk_control_conn *c, const struct rsk_remote_msg *m);

/* remote_list.c */
typedef void rsk_remote_message_fn(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
struct rsk_remote *rsk_remote_new(bool initiator, rsk_remote_message_fn *message);
void rsk_remote_dead(struct rsk_remote *r, int why);
void rsk_remotes_reap(void);

/* remote_engine.c: the link is up: it is the engine's, if it was not; and what the other end says to the engine. */
void rsk_remote_up(struct rsk_remote *r);
void rsk_remote_to_engine(struct rsk_remote *r, const struct rsk_remote_msg *m);

/* remote_rail_state.c */
void rsk_remote_rail_idle(struct rsk_remote_rail *rail); /* to be tried again, after a while */
/* Its queue pair, if there is one: nothing comes in any more. */
void rsk_remote_rail_end(struct rsk_remote_rail *rail);
void rsk_remote_name_fabric(struct rsk_remote *r); /* by what it has now, for the record */

/* remote_rail.c: a rail's life */
extern const struct rsk_verbs_host rsk_remote_host;
int rsk_remote_rail_make(struct rsk_remote *r, uint32_t index); /* 0 or -ENOMEM */
void rsk_remote_rail_begin(struct rsk_remote_rail *rail);	/* initiator: to the peer's RNIC */
void rsk_remote_rail_down(struct rsk_remote_rail *rail, int err);
void rsk_remote_on_rail(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_rails_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_remote_rails_next(const struct rsk_remote *r);

/* rail_failure.c: all are gone, and streams go on by their companions; or one of several is */
void rsk_remote_broken(struct rsk_remote *r, int err);
void rsk_remote_on_break(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_rail_lost(struct rsk_remote_rail *rail, int err);
/* LOST, GAP, NAMED by the control connection; and by a rail. */
void rsk_remote_on_missing(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* False: it breaks the rules. */
bool rsk_remote_rail_heard(struct rsk_remote_rail *rail, const uint8_t *word);
void rsk_remote_watch_msgs(void); /* listens for them while something is open about any rail */
/* The link is up again: what was heard of lost ones before is answered. */
void rsk_remote_say_early(struct rsk_remote *r);

/* rail_candidates.c: where further rails may go */
void rsk_remote_say_candidates(struct rsk_remote *r);
void rsk_remote_on_candidate(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_match_candidates(struct rsk_remote *r);
void rsk_remote_candidates_work(struct rsk_remote *r);
/*
 * Of an idle one of the initiator that is due: does it lead to a place that the other end still has? Else it waits for
 * another.
 */
bool rsk_remote_candidate_stands(struct rsk_remote_rail *rail);

/*
 * remote_status.c: the rail is asked whether its peer is there, and how that finds the link; what was heard; what is
 * new.
 */
void rsk_remote_ask(struct rsk_remote_rail *rail);
void rsk_remote_status_work(struct rsk_remote *r);
/* All gets of the link: completions are taken, by whoever waits for one. */
void rsk_remote_hear_gets(struct rsk_remote *r);
/* remote_ports.c: what rsockd says of ports of ours: may a further rail go by that one? */
bool rsk_remote_ports_may(const struct rsk_remote *r, uint32_t port);
/* An idle one that is due, of the initiator: it has what it needs, or is due later, or never. */
bool rsk_remote_ports_admits(struct rsk_remote_rail *rail, uint64_t now_ns);
/* One that comes to that address of ours: may it? Then it has what it needs. */
bool rsk_remote_ports_accepts(struct rsk_remote_rail *rail, const struct rsk_verbs_addr *here);
void rsk_remote_ports_came(struct rsk_remote_rail *rail); /* established */
void rsk_remote_ports_check(uint64_t now_ns);
void rsk_remote_ports_work(struct rsk_remote *r);
uint64_t rsk_remote_ports_next(const struct rsk_remote *r);

/* remote_rings.c: what of each stream is registered with a rail */
void rsk_remote_on_ring(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_ring_req(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* A stream is joined, or the link is up again: its ring is wanted over all rails that are up. */
void rsk_remote_want_ring(struct rsk_remote *r, uint32_t sid);
/* It is up: those of all streams that another rail has. */
void rsk_remote_rings_begin(struct rsk_remote_rail *rail);
void rsk_remote_rings_work(struct rsk_remote_rail *rail, uint64_t now_ns);
uint64_t rsk_remote_rings_next(const struct rsk_remote_rail *rail);

#endif
