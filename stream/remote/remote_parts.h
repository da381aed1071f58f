/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_parts.h - one link to another host, as the progress thread sees it: the types and
 * functions that the files of this folder share. Only the progress thread uses them, except where a
 * comment says otherwise.
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
	RSK_REMOTE_HANDSHAKING, /* HELLO was sent, or is being checked */
	RSK_REMOTE_RAILING,	/* both ends know each other; the rail is being made */
	RSK_REMOTE_UP,
	RSK_REMOTE_BROKEN, /* was up: the rail is made again */
	RSK_REMOTE_DEAD,   /* to be freed */
};

struct rsk_remote;

enum rsk_remote_rail_state {
	RSK_REMOTE_RAIL_IDLE,
	/*
	 * being connected or accepted, or established here while the other end has not confirmed it
	 * yet
	 */
	RSK_REMOTE_RAIL_COMING,
	RSK_REMOTE_RAIL_UP,
	/* one of several: the two ends have not settled yet what has come by it (rail_failure.c) */
	RSK_REMOTE_RAIL_LOST
};

/* One of the rails of a link. */
struct rsk_remote_rail {
	struct rsk_remote *r;
	uint32_t index;
	enum rsk_remote_rail_state state;
	struct rsk_verbs_rail *rail;	/* NULL: it was never made */
	struct rsk_rail puts;		/* the rail object through which r->rails puts */
	struct rsk_verbs_addr from, to; /* initiator; to.family 0: no address is known */
	struct rsk_verbs_addr is_from;	/* its local address when it was up last */
	uint32_t generation;		/* generation: counts its queue pairs */
	/* newest generation for which this end has said what is missing */
	uint32_t told_generation;
	/* newest generation for which the other end has said so */
	uint32_t heard_generation;
	uint64_t heard_turn; /* sequence number of the next message about it */
	/* newest generation for which the control connection has delivered all of these messages */
	uint32_t tcp_generation;
	uint32_t epoch; /* epoch of the link that this generation is for */
	/*
	 * RAIL_DOWN was received for this epoch and generation before the link was up here; 0: none
	 */
	uint32_t early_epoch, early_generation;
	/* no control block can be registered there: the link must have other rails */
	bool unfit;
	bool established;	   /* at this end */
	bool heard;		   /* the peer's RAIL message of this generation has come */
	struct rsk_verbs_end peer; /* what that message said */
	uint32_t tries;
	uint64_t due_ns; /* time of the next attempt, or of giving up; UINT64_MAX */
	struct rsk_ring_regs ways;
	/* when the next of these is due; UINT64_MAX */
	uint64_t rings_ns, register_ns, probe_ns;
	/* the peer's view of the link, read over this rail */
	struct rsk_mailbox_reader status;
	uint32_t port;			    /* our port in rsockd's port table */
	struct rsk_reservation reservation; /* what is reserved of it */
	uint32_t looks;			    /* checks of the port table since it is up */
};

struct rsk_remote {
	struct rsk_control_conn control; /* first: container of its callbacks */
	struct rsk_watch pair;		 /* our end of the link's control socket; fd -1: none */
	struct rsk_remote *prev, *next;
	enum rsk_remote_state state;
	bool initiator;
	uint64_t nonce, secret;
	struct rsk_seg_geometry geometry; /* of the segment of the end that sent HELLO */
	struct rsk_order_form form;	  /* form of its transaction tags */
	struct rsk_remote_target target;  /* initiator: destination; else tuple and handle only */
	/* NULL: not admitted yet; from RSK_REMOTE_UP on also in links.c, until let_go */
	struct rsk_link *l;
	/* accepting end: our address to which the peer connected */
	struct rsk_verbs_addr here;
	/*
	 * accepting end: address from which the first rail must come, as rsockd has said with its
	 * verdict; zeros: any; and from which it came, family 0: it has not
	 */
	uint8_t announced_ip[16];
	struct rsk_verbs_addr came_from;
	uint32_t peer_reason; /* initiator: why it was refused, enum rsk_reason; 0: it was not */
	/* the version of the peer's library, which has said HELLO and nothing else; 0: ours */
	uint32_t other_version;
	bool listed; /* links.c has it */
	struct rsk_remote_rail rail[RSK_RAILS_MOST];
	struct rsk_rails rails; /* the set of rails through which streams put */
	uint64_t rest_ns;	/* when its wide rings are looked at next: ring_width.h */
	uint32_t epoch;		/* counts the times that the link came up */
	/* initiator: the peer's rail candidates */
	struct rsk_verbs_device_addr theirs[RSK_REMOTE_CANDIDATES];
	uint8_t theirs_use[RSK_REMOTE_CANDIDATES]; /* enum rsk_remote_use of each */
	uint32_t candidates;
	bool match_due;	     /* they, or ours, are new */
	uint32_t rails_most; /* initiator: number of rails that the peer admits */
	bool candidates_due; /* a device came or went: check the candidates again */
	/* initiator: the first rail's devices, ours and theirs, are software */
	bool soft[2];
	/*
	 * initiator, as of the last match: all numbers are taken, and one of them is wanted for an
	 * active port, since at one end all rails are over spare ones
	 */
	bool number_wanted;
	uint32_t wanted_port; /* the port of ours that it would be over, in the port table */
	/* port table: changed, read, since the last round for this link */
	bool ports_changed, ports_checked;
	/* as of the last round, a rail is up on a port of ours that is not a spare one */
	bool active;
	uint64_t due_ns; /* when the attempt is given up; UINT64_MAX */
	/* rsockd's verdict: 0 none yet; else enum rsk_reason + 1. Under the pairing lock */
	uint32_t verdict;
	/*
	 * Accepting end, under the pairing lock: rsockd was asked, and has not answered yet, also
	 * while the link is dead; the number of that rsockd. It has admitted the link, and holds a
	 * session for the mapping. The link is dead, for threads that do not see @state.
	 */
	bool waits_verdict;
	uint32_t asked;
	bool mapped, ended;
	/* message to the engine, whose socket had no room; control is paused */
	struct rsk_link_msg held;
	bool holds;
	bool more; /* messages to the engine were not read to the end */
	/* ENDING was sent in the present wait for the end of the process */
	bool told_end;
	/* streams have control words in flight that cannot wait */
	bool applies;
	uint64_t idle_ns;	      /* since when no stream uses it; 0: one does */
	struct rsk_mailbox status;    /* this end's view of the link */
	struct rsk_mailbox_link said; /* as last published */
	/* key of our mailbox, and of the peer's */
	struct rsk_key status_key[2];
	struct rsk_credits *credits; /* credit.c; NULL: no ring of the link was ever full */
	uint64_t repair_ns;	     /* slot_repair.c: the next round; 0: none */
};

/*
 * Interval of the probe which asks, over a rail by which nothing comes, whether the peer is still
 * there.
 */
#define RSK_REMOTE_PROBE_NS 1000000000ull

/* a link that is not up by then is given up */
#define RSK_REMOTE_GIVE_UP_NS 10000000000ull

/* All links to other hosts; the progress thread changes them, under the pairing lock. */
extern struct rsk_remotes {
	struct rsk_remote *all;
	uint32_t pending_peers; /* pending peers: accepted connections that are not admitted yet */
	struct rsk_watch listener;
	struct rsk_watch work; /* the descriptor of the verbs module */
} rsk_remotes;

/* daemon_inbox.c: from now on the progress thread reads the daemon inbox, as long as it exists. */
void rsk_remote_watch_daemon(void);
/* In the child of a fork: the next connection to rsockd may have the same number. */
void rsk_remote_forget_daemon(void);

/*
 * daemon_inbox.c: reads what has come for the engine, and starts the link requests of streams that
 * wait for their turn.
 */
void rsk_remote_hear(struct rsk_remote *r);

/* link_handshake.c */
void rsk_link_handshake_begin(uint64_t nonce, const struct rsk_remote_target *target);
/* connections wait at the listener */
void rsk_link_handshake_accept(struct rsk_watch *w, uint32_t events);
void rsk_link_handshake_hello(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* Its first message is of another version. */
void rsk_link_handshake_other_version(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
void rsk_link_handshake_welcome(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_link_handshake_admit(struct rsk_remote *r); /* if rsockd has answered */

/* remote.c: handles a message of the progress thread at the other end */
void rsk_remote_message(struct rsk_control_conn *c, const struct rsk_remote_msg *m);

/* remote_list.c */
typedef void rsk_remote_message_fn(struct rsk_control_conn *c, const struct rsk_remote_msg *m);
struct rsk_remote *rsk_remote_new(bool initiator, rsk_remote_message_fn *message);
void rsk_remote_dead(struct rsk_remote *r, int why);
/* pairing lock held; true if rsockd was asked about @r, and its answer is still to come */
bool rsk_remote_waits(const struct rsk_remote *r);
void rsk_remotes_reap(void);
void rsk_remotes_forget(void); /* in the child of a fork: they are the parent's */

/*
 * remote_engine.c: the link is up, and is handed to the engine unless the engine has it; passes the
 * engine a message of the other end.
 */
void rsk_remote_up(struct rsk_remote *r);
void rsk_remote_to_engine(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* Sends what the engine has said so far. The link may be dead afterwards. */
void rsk_remote_from_engine(struct rsk_remote *r);

/* remote_rail_state.c */
void rsk_remote_rail_idle(struct rsk_remote_rail *rail); /* to be tried again, after a while */
/* Closes its queue pair, if there is one: nothing comes in by it any more. */
void rsk_remote_rail_end(struct rsk_remote_rail *rail);
/* the devices that it uses now, for the record */
void rsk_remote_name_fabric(struct rsk_remote *r);

/* remote_rail.c: the lifetime of a rail */
extern const struct rsk_verbs_host rsk_remote_host;
int rsk_remote_rail_make(struct rsk_remote *r, uint32_t index); /* 0 or -ENOMEM */
/* initiator: connects to the peer's RNIC */
void rsk_remote_rail_begin(struct rsk_remote_rail *rail);
void rsk_remote_rail_down(struct rsk_remote_rail *rail, int err);
void rsk_remote_on_rail(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_rails_work(struct rsk_remote *r, uint64_t now_ns);
uint64_t rsk_remote_rails_next(const struct rsk_remote *r);

/*
 * rail_failure.c: all rails are gone and streams continue on their TCP sockets; or one of several
 * is gone
 */
void rsk_remote_broken(struct rsk_remote *r, int err);
void rsk_remote_on_break(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_rail_lost(struct rsk_remote_rail *rail, int err);
/* RAIL_DOWN, MISSING, MISSING_END, by the control connection; and the same by a rail. */
void rsk_remote_on_missing(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* False: the message breaks the protocol. */
bool rsk_remote_rail_heard(struct rsk_remote_rail *rail, const uint8_t *word);
/* receives control messages of rails while any rail is lost and not settled */
void rsk_remote_watch_news(void);
/* The link is up again: answers RAIL_DOWN messages that came before. */
void rsk_remote_say_early(struct rsk_remote *r);

/* rail_candidates.c: candidates for further rails */
void rsk_remote_say_candidates(struct rsk_remote *r);
void rsk_remote_on_candidate(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_match_candidates(struct rsk_remote *r);
void rsk_remote_candidates_work(struct rsk_remote *r);
/*
 * For an idle rail of the initiator that is due: true if its address is one that the other end
 * still has. False: the rail waits for another candidate.
 */
bool rsk_remote_candidate_stands(struct rsk_remote_rail *rail);

/*
 * remote_status.c: probes a rail and reads over it the peer's view of the link; takes in what was
 * read, and publishes our view when it changes.
 */
void rsk_remote_ask(struct rsk_remote_rail *rail);
void rsk_remote_status_work(struct rsk_remote *r);
/* Takes the completions of all RDMA READs of the link, for whichever reader waits for one. */
void rsk_remote_hear_gets(struct rsk_remote *r);
/* remote_ports.c: what rsockd says about our ports. True if a further rail may use that port. */
bool rsk_remote_ports_may(const struct rsk_remote *r, uint32_t port);
/* What that port of ours is to further rails of any link; never UNKNOWN. */
enum rsk_remote_use rsk_remote_ports_use(uint32_t port);
/*
 * An idle rail of the initiator that is due: true if its port reservation is made; false: it is due
 * later, or never.
 */
bool rsk_remote_ports_admits(struct rsk_remote_rail *rail, uint64_t now_ns);
/*
 * A rail that is being accepted at that address of ours: true if it may be, and its port
 * reservation is made.
 */
bool rsk_remote_ports_accepts(struct rsk_remote_rail *rail, const struct rsk_verbs_addr *here);
void rsk_remote_ports_came(struct rsk_remote_rail *rail); /* the rail is established */
void rsk_remote_ports_check(uint64_t now_ns);
void rsk_remote_ports_work(struct rsk_remote *r);
uint64_t rsk_remote_ports_next(const struct rsk_remote *r);

/* remote_rings.c: what each stream has registered with each rail */
void rsk_remote_on_ring(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_ring_req(struct rsk_remote *r, const struct rsk_remote_msg *m);
void rsk_remote_on_narrow(struct rsk_remote *r, const struct rsk_remote_msg *m);
/* A stream is paired, or the link is up again: requests its ring over all rails that are up. */
void rsk_remote_want_ring(struct rsk_remote *r, uint32_t sid);
/* Requests as much of the peer's ring as ways.at[sid].asked_bytes says. */
void rsk_remote_ask_ring(struct rsk_remote_rail *rail, uint32_t sid);
/* From now on no more than @bytes of it are used by that rail. */
void rsk_remote_say_narrow(struct rsk_remote_rail *rail, uint32_t sid, uint32_t bytes);
/* The rail is up: requests the rings of all streams that another rail has. */
void rsk_remote_rings_begin(struct rsk_remote_rail *rail);
void rsk_remote_rings_work(struct rsk_remote_rail *rail, uint64_t now_ns);
uint64_t rsk_remote_rings_next(const struct rsk_remote_rail *rail);

#endif
