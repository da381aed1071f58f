/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger.pml - model, checked by run.sh, of the ledger of remote ports (docs/adr/cluster.md;
 * mapper/rsockd/quota/, mapper/policy/claims.c, mapper/policy/quota.c). One RNIC with MAX sessions,
 * whose owner offers all but RESERVE of them; two hosts that hold quotas of it; a host without a
 * ledger that uses what is left (others). etcd is a store in which each transaction is one step.
 * What may go wrong does at one of the holders, number 0: it is stopped, dies, comes back with
 * another lease; its transactions are executed at any time after what they have read, and an answer
 * may be given up: then that one is late, and the next one may be sent beside it. The other holder
 * takes what there is, each time in one step.
 *
 * Revisions are not numbers here: a transaction has a bit that says whether its own key has been
 * changed since it was read (own_moved), and one for the range of quotas and the offer (all_moved).
 *
 * Time: a holder uses its quotas while they are valid, and they may become invalid at any time
 * (stopped, etcd not reached, dead). The lease ends later, when the owner has had the time to
 * publish what is in use. The owner hears of changes of quotas at once. An owner that dies knows
 * its sessions when it is back; its offer goes at any time between.
 *
 * A host that asks without a quota while it gives one back may be granted what it gives, as the
 * owner has not heard of it yet; the model leaves that out (ASK_WHILE_GIVING has it), as it does
 * writes of the owner whose answers are lost.
 *
 * Claims: what a valid quota covers is never refused, so holders need not ask anybody; what is in
 * use and what may come to use by quotas never exceed MAX in sum (check); and when all hosts have
 * gone, all that the owner has is offered, and nobody has any of it (the end).
 */
/* CC: -DVECTORSZ=256 */
/* MUTANT: -DOWN_KEY_ONLY */
/* MUTANT: -DANY_OFFER */
/* MUTANT: -DUSE_BEYOND_HOLD */
/* MUTANT: -DONE_HOLD */
/* MUTANT: -DUSE_WHILE_GIVING */
/* MUTANT: -DBELIEVE_LATE */
/* MUTANT: -DCOVERED_EARLY */
/* MUTANT: -DGIVE_WHAT_IS_USED */
/* MUTANT: -DALL_PUBLISHED_IS_OURS */
/* MUTANT: -DFORMER_IS_FREE */
/* MUTANT: -DASK_WHILE_GIVING */
/* MUTANT: -DBELIEVE_PUBLISHED */
/* MUTANT: -DOFFER_AFTER */
/* MUTANT: -DUSE_IS_FREE */

#define HOLDERS	2
#define MAX	2
#define RESERVE 1

#define LARGER(a, b)  ((a) > (b) -> (a) : (b))
#define SMALLER(a, b) ((a) < (b) -> (a) : (b))
#define LESS(a, b)    ((a) > (b) -> (a) - (b) : 0)

/* ---- etcd ---- */
bit is_offered; /* the owner's key is there */
byte offer, published[HOLDERS];
byte quota[HOLDERS];  /* 0: no key */
bit is_mine[HOLDERS]; /* it is under the lease that the holder has now */

/* ---- the owner ---- */
bit is_up = 1;
bit is_writing; /* what: the next two; otherwise they are as etcd has them */
byte next_offer, next_published[HOLDERS];
byte used[HOLDERS], others; /* sessions; they go on whoever dies */

/* ---- holders ---- */
bit is_valid[HOLDERS]; /* has a lease, and hold is not over */
byte held[HOLDERS];
bit is_unsure[HOLDERS];

/* A transaction; late: its answer was given up, or its lease is another one than now */
typedef transaction {
	bit is_sent, is_more, own_moved, all_moved;
	bit is_former; /* under a former lease */
	byte sessions
};
transaction now[HOLDERS], late[HOLDERS];

bit is_over; /* all hosts but the owner go */

#define BOOKED (used[0] + used[1] + others)

/* As etcd has it. */
#ifdef USE_IS_FREE
#define CLAIM(h) (quota[h])
#else
#define CLAIM(h) LARGER(quota[h], published[h])
#endif
/* As the owner counts: the larger number of what is there and what is being written; and what is
 * there in any case. */
#ifdef OFFER_AFTER
#define OWN_OFFER offer
#else
#define OWN_OFFER LARGER(offer, next_offer)
#endif
#define OWN_CLAIM(h) LARGER(quota[h], LARGER(published[h], next_published[h]))
#ifdef COVERED_EARLY
#define SURE(h) OWN_CLAIM(h)
#else
#define SURE(h) LARGER(quota[h], SMALLER(published[h], next_published[h]))
#endif
#define COVERED (SMALLER(used[0], SURE(0)) + SMALLER(used[1], SURE(1)))
#define UNSURE (OWN_CLAIM(0) - SURE(0) + OWN_CLAIM(1) - SURE(1))
#define KEPT   (LARGER(OWN_OFFER + UNSURE, OWN_CLAIM(0) + OWN_CLAIM(1)) - COVERED)
#define FITS	(BOOKED + 1 + KEPT <= MAX)
/* A quota covers always; what is published is the owner's to give, and may be too much. */
#ifdef BELIEVE_PUBLISHED
#define GRANTS(h) (BOOKED < MAX && (used[h] < SURE(h) || FITS))
#else
#define GRANTS(h)                                                                                  \
	(BOOKED < MAX &&                                                                           \
	 (used[h] < quota[h] || FITS || (used[h] < SURE(h) && BOOKED + KEPT <= MAX)))
#endif

/* What is in use, and what may come to use by quotas. */
inline check()
{
	assert(BOOKED + LESS(quota[0], used[0]) + LESS(quota[1], used[1]) <= MAX)
}

/* ---- what a transaction does ---- */

inline forget(t)
{
	t.is_sent = 0;
	t.is_more = 0;
	t.own_moved = 0;
	t.all_moved = 0;
	t.is_former = 0;
	t.sessions = 0
}

/* The key of holder h has changed; a key that has gone only leaves more for others. */
inline moved(h, is_put)
{
	now[h].own_moved = now[h].is_sent;
	late[h].own_moved = late[h].is_sent;
	if
	:: is_put ->
		now[1 - h].all_moved = now[1 - h].is_sent;
		late[1 - h].all_moved = late[1 - h].is_sent
	:: else
	fi
}

inline offer_moved()
{
#ifndef ANY_OFFER
	now[0].all_moved = now[0].is_sent;
	late[0].all_moved = late[0].is_sent;
	now[1].all_moved = now[1].is_sent;
	late[1].all_moved = late[1].is_sent
#else
	skip
#endif
}

#ifdef OWN_KEY_ONLY
#define IN_THE_WAY(t) (t.own_moved)
#else
#define IN_THE_WAY(t) (t.own_moved || (t.is_more && t.all_moved))
#endif

/* As quota_take.c: decide() and write_quota(). What was read is used in the same step. */
inline decide(h)
{
	seen = (is_mine[h] -> quota[h] : 0);
#ifndef BELIEVE_LATE
	if
	:: is_unsure[h] && late[h].is_sent -> held[h] = SMALLER(held[h], seen)
	:: else -> held[h] = seen; is_unsure[h] = 0
	fi;
#else
	held[h] = seen;
	is_unsure[h] = 0;
#endif
#ifdef GIVE_WHAT_IS_USED
	want = (is_offered -> want : 0);
#else
	want = (is_offered -> want : SMALLER(used[h], held[h]));
#endif
#ifdef ALL_PUBLISHED_IS_OURS
	left = LARGER(LESS(offer, CLAIM(1 - h)), published[h]);
#else
	left = LARGER(LESS(offer, CLAIM(1 - h)), SMALLER(published[h], used[h]));
#endif
	grant = (want <= held[h] -> want : LARGER(SMALLER(want, left), held[h]));
#ifndef FORMER_IS_FREE
	grant = (is_mine[h] -> grant : LARGER(grant, SMALLER(used[h], quota[h])));
#endif
	if
	:: grant != held[h] || (quota[h] && !is_mine[h]) || (is_unsure[h] && grant) ->
		now[h].is_sent = 1;
		now[h].is_more = grant > held[h];
		now[h].sessions = grant;
#ifndef USE_WHILE_GIVING
		held[h] = SMALLER(held[h], grant)
#endif
	:: else
	fi;
	seen = 0;
	want = 0;
	left = 0;
	grant = 0
}

inline execute(h, t, is_answered)
{
	if
	:: !IN_THE_WAY(t) ->
		quota[h] = t.sessions;
		is_mine[h] = t.sessions && !t.is_former;
		if
		:: is_answered ->
			held[h] = t.sessions;
			is_unsure[h] = is_unsure[h] && !t.sessions
		:: else
		fi;
		moved(h, t.sessions)
	:: else
	fi;
	forget(t);
	check()
}

inline give_up(h)
{
	late[h].is_sent = 1;
	late[h].is_more = now[h].is_more;
	late[h].own_moved = now[h].own_moved;
	late[h].all_moved = now[h].all_moved;
	late[h].is_former = now[h].is_former;
	late[h].sessions = now[h].sessions;
	forget(now[h]);
	is_unsure[h] = 1
}

#ifdef USE_BEYOND_HOLD
#define MAY_USE(h) (held[h] > used[h])
#else
#define MAY_USE(h) (is_valid[h] && held[h] > used[h])
#endif
/* It asks without a quota, and the owner has not heard yet that it is giving some back. */
#ifdef ASK_WHILE_GIVING
#define IS_GIVING(h) 0
#else
#define GIVES(h, t)  (t.is_sent && t.sessions < quota[h])
#define IS_GIVING(h)                                                                               \
	(GIVES(h, now[h]) || GIVES(h, late[h]) || (quota[h] && !(is_valid[h] && is_mine[h])))
#endif
/* What is in use of a quota counts when it is gone. Without an offer nobody takes anything. */
#define TOLD(h) SMALLER(published[h], next_published[h])
#ifdef ONE_HOLD
#define IS_TOLD(h) 1
#else
#define IS_TOLD(h) (TOLD(h) >= SMALLER(used[h], quota[h]) || (!is_offered && !is_writing))
#endif

active [HOLDERS] proctype holder()
{
	byte seen, want, left, grant;

end:	do
	/* a lease; what was sent under the one before may still be executed */
	:: d_step { !is_over && !is_valid[_pid] && !now[_pid].is_sent ->
		late[_pid].is_former = late[_pid].is_sent;
		is_valid[_pid] = 1;
		is_mine[_pid] = 0;
		held[_pid] = 0 }
	/* hold is over */
	:: d_step { (_pid == 0 || is_over) && is_valid[_pid] -> is_valid[_pid] = 0 }
	/* the lease is over */
	:: d_step { quota[_pid] && (!is_valid[_pid] || !is_mine[_pid]) && IS_TOLD(_pid) ->
		quota[_pid] = 0;
		is_mine[_pid] = 0;
		moved(_pid, 0);
		check() }
	:: atomic { !is_over && is_valid[_pid] && !now[_pid].is_sent ->
		if
		:: want = used[_pid]
		:: want = used[_pid] + 1
		fi;
		d_step {
			decide(_pid);
			if
			:: _pid == 1 && now[_pid].is_sent -> execute(_pid, now[_pid], 1)
			:: else
			fi
		} }
	:: d_step { now[_pid].is_sent -> execute(_pid, now[_pid], is_valid[_pid]) }
	:: d_step { _pid == 0 && now[_pid].is_sent && !late[_pid].is_sent -> give_up(_pid) }
	:: d_step { late[_pid].is_sent -> execute(_pid, late[_pid], 0) }
	:: d_step { late[_pid].is_sent -> forget(late[_pid]) }
	/* sessions */
	:: d_step { !is_over && is_up && MAY_USE(_pid) ->
		assert(GRANTS(_pid));
		used[_pid]++;
		check() }
	:: d_step { !is_over && is_up && !MAY_USE(_pid) && !IS_GIVING(_pid) && GRANTS(_pid) ->
		used[_pid]++;
		check() }
	:: d_step { used[_pid] -> used[_pid]--; check() }
	od
}

active proctype without_a_ledger()
{
end:	do
	:: d_step { !is_over && is_up && !others && BOOKED < MAX && FITS -> others++; check() }
	:: d_step { others -> others--; check() }
	od
}

/* As claims.c: rsk_claims_publish(), rsk_claims_next(), rsk_claims_due(). */
#define PUBLISH(h) (used[h] && used[h] < quota[h] -> SMALLER(quota[h], used[h] + RESERVE) : used[h])
#define NEXT	   LESS(MAX - RESERVE, others)
#define DIFFERS(h) (used[h] > published[h] || published[h] > LARGER(used[h], quota[h]))
#define IS_DUE                                                                                     \
	(!is_offered || NEXT > offer || (NEXT < offer && BOOKED + KEPT >= MAX) || DIFFERS(0) ||    \
	 DIFFERS(1))

inline written(is_executed)
{
	if
	:: is_executed ->
		is_offered = 1;
		offer = next_offer;
		published[0] = next_published[0];
		published[1] = next_published[1];
		offer_moved()
	:: else ->
		next_offer = offer;
		next_published[0] = published[0];
		next_published[1] = published[1]
	fi;
	is_writing = 0;
	check()
}

active proctype owner()
{
end:	do
	:: d_step { is_up && !is_writing && IS_DUE ->
		is_writing = 1;
		next_offer = NEXT;
		next_published[0] = PUBLISH(0);
		next_published[1] = PUBLISH(1) }
	:: d_step { is_writing -> written(1) }
	:: d_step { is_writing -> written(0) }
	:: d_step { is_up && !is_writing && !is_over -> is_up = 0 }
	:: d_step { !is_up && is_offered ->
		is_offered = 0;
		next_offer = 0;
		next_published[0] = 0;
		next_published[1] = 0;
		offer = 0;
		published[0] = 0;
		published[1] = 0;
		offer_moved();
		check() }
	:: d_step { !is_up -> is_up = 1 }
	od
}

active proctype the_end()
{
	is_over = 1;
	timeout;
	assert(!quota[0] && !quota[1] && !published[0] && !published[1]);
	assert(is_offered && offer == MAX - RESERVE)
}
