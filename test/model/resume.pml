/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resume.pml - model, checked by run.sh, of a direction over a rail that breaks at any moment, with
 * whatever was under way lost, and comes back (stream/remote/recovery_break.c,
 * stream/remote/remote_rail.c; rsk_tx_break(), rsk_tx_resume(), rsk_tx_renew(), and the same of
 * stream/ring/rx_break.c). The two progress threads have a FIFO of their own, the control
 * connection: BREAK, RESUME(so much has arrived here), RAIL(I have it for this epoch), RING(you may
 * propose). Each end notices the break by itself, or by BREAK. The receiver says what has arrived,
 * reads that, and then the TCP socket. The sender waits for RESUME, and repeats from there by TCP,
 * before anything newer. Each end renews its half, with a key of the new epoch, when it has the
 * rail and has received RAIL, which comes after the other end's RESUME: at once, or when it has
 * read, or repeated, what is left of the old one. A rail may break again before both ends have it.
 *
 * When the sender falls back by itself (FALLBACK_TX) it goes on by TCP when the rail
 * has acknowledged all that it put: that is in the receiver's memory then, whatever becomes of the
 * rail, though it may be unread.
 *
 * What a call or a round of a progress thread does under the stream's lock is one step. Slots
 * arrive in order (one reliable queue pair); the control word that announces a ring goes before
 * them by the same rail, and is a slot here.
 *
 * Claims: bytes arrive as 0, 1, 2, ... (assertions); no process is left waiting, and all of them
 * arrive (invalid end states; every run ends, since breaks and promotions are counted). The last
 * mutant is not a broken protocol: it reports as an error a state that must be reachable, a byte by
 * the ring of a second rail.
 */
/* MUTANT: -DRENEW_UNHEARD */
/* MUTANT: -DNEWER_UNDRAINED */
/* MUTANT: -DOLD_KEY */
/* MUTANT: -DFROM_ACKED */
/* MUTANT: -DREAD_SO_FAR */
/* MUTANT: -DREACH_AGAIN */

#define BYTES      2 /* 3: four times as many states */
#define BREAKS     2
#define PROMOTIONS 2
#define ITEMS      (BYTES + 2 * PROMOTIONS)
#define RINGW      100 /* "on the ring from start on" */
#define FALLBACK_TX       101
#define START      102 /* RSK_POS_START */

mtype = { BREAK, RESUME, RAIL, RING, TCP, PROPOSED, ONRING, BROKEN, RESEND, WATCH, DRAIN_TCP };

chan a2b = [8] of { mtype, byte, byte };
chan b2a = [8] of { mtype, byte, byte };
chan tcp = [BYTES + 1] of { byte };

/* ---- the rail ---- */
bit rail = 1;
byte rail_epoch = 1, breaks;
byte mem[ITEMS], tag[ITEMS]; /* the ring as the receiver sees it: slots, and their keys */
byte item[ITEMS];	     /* as the sender puts it */
byte put, landed, key = 1;   /* the sender's key */
byte acked;		     /* the rail has told the sender that these have arrived */
/* control words: the key that they have, 0: none */
byte propose_out, propose_in, watch_out, watch_in;
byte credit_out, credit_in;

active proctype wire()
{
end:
	do
	:: atomic { rail && key == rail_epoch && landed < put ->
		mem[landed] = item[landed]; tag[landed] = key; landed++ }
	:: atomic { rail && propose_out && landed == put ->
		propose_in = propose_out; propose_out = 0 }
	:: atomic { rail && watch_out -> watch_in = watch_out; watch_out = 0 }
	:: atomic { rail && key == rail_epoch && acked < landed -> acked++ }
	:: atomic { rail && credit_in != credit_out -> credit_in = credit_out }
	od
}

/* ---- the sender's end ---- */
mtype state = TCP;
byte pos;	   /* of the next byte */
byte start, from;  /* of this promotion; of the next byte to repeat */
byte ring_item;	   /* where this promotion's word is */
byte promotions;
bit left, renews, done_a;
bit a_up = 1, a_est, a_heard, a_open = 1;
byte a_epoch = 1;

#define drained (acked == put || left)

inline tx_renew()
{
	renews = 0;
	put = 0; landed = 0; acked = 0; credit_in = 0; credit_out = 0; left = 0;
	key = a_epoch
}

inline tx_break()
{
	if
	:: state == ONRING || (state == TCP && !drained) -> state = BROKEN
	:: state == PROPOSED -> state = TCP
	:: else
	fi;
	left = 1
}

inline tx_resume(p)
{
	tx_break();
	if
	:: state == BROKEN ->
#ifdef FROM_ACKED
		from = start + (acked > ring_item -> acked - ring_item - 1 : 0);
		if
		:: from > pos -> from = pos
		:: else
		fi;
#else
		from = (p == START -> start : p);
#endif
		assert(start <= from && from <= pos);
		state = RESEND
	:: else
	fi
}

inline a_broken()
{
	a_up = 0; a_open = 0; a_est = 0;
	a2b!BREAK(a_epoch, 0);
	tx_break()
}

active proctype sender()
{
	mtype what;
	byte e, p;

	do
	/* the application, and what each of its calls serves */
	:: atomic { state == ONRING && pos < BYTES -> item[put] = pos; put++; pos++ }
#ifdef NEWER_UNDRAINED
	:: atomic { state == TCP && pos < BYTES -> tcp!pos; pos++ }
#else
	:: atomic { state == TCP && drained && pos < BYTES -> tcp!pos; pos++ }
#endif
	:: atomic { state == TCP && credit_in == put && !left && a_open &&
		promotions < PROMOTIONS &&
		    pos < BYTES -> state = PROPOSED; watch_in = 0; propose_out = key }
	:: atomic { state == PROPOSED && pos < BYTES -> tcp!pos; pos++ }
	:: atomic { state == PROPOSED && watch_in == key ->
		start = pos; ring_item = put; item[put] = RINGW; put++;
		promotions++; state = ONRING; watch_in = 0 }
	:: atomic { state == ONRING && credit_in > ring_item ->
		item[put] = FALLBACK_TX; put++; state = TCP }
	:: atomic { state == RESEND && from < pos -> tcp!from; from++ }
	:: atomic { state == RESEND && from == pos -> state = TCP }
	:: atomic { state == TCP && renews -> tx_renew() }

	/* its progress thread */
	:: atomic { a_up && !rail -> a_broken() }
	:: atomic { !a_up && !rail && a_est -> a_est = 0 }
	:: atomic { rail && !a_up && !a_est && a_epoch == rail_epoch ->
		a_est = 1; a2b!RAIL(a_epoch, 0) }
#ifdef RENEW_UNHEARD
	:: atomic { a_est && !a_up ->
#else
	:: atomic { a_est && a_heard && !a_up ->
#endif
		a_up = 1; renews = 1;
		if
		:: state == TCP -> tx_renew()
		:: else
		fi }
	:: atomic { b2a?what, e, p ->
		if
		:: what == BREAK && a_up && e == a_epoch -> a_broken()
		:: what == RESUME && !a_up -> tx_resume(p)
		:: what == RAIL && e == a_epoch -> a_heard = 1
		:: what == RING && a_up && e == a_epoch -> a_open = 1
		:: else
		fi }
	:: atomic { pos == BYTES && state == TCP && drained && !renews -> done_a = 1; break }
	:: atomic { pos == BYTES && state == TCP && left -> done_a = 1; break }
	od
}

/* ---- the receiver's end ---- */
mtype r_state = TCP;
byte delivered, taken, r_switch, at, told;
bit b_up = 1, b_est, b_heard, r_left, r_renews;
byte ring_limit;	/* the rail broke: the ring ends before this slot */
bit is_limited;
byte b_epoch = 1, r_key = 1;
bit again; /* a byte came by the ring of a second rail */

#ifdef OLD_KEY
#define slot (taken < ITEMS && tag[taken] && (!is_limited || taken < ring_limit))
#else
#define slot (taken < ITEMS && tag[taken] == r_key && (!is_limited || taken < ring_limit))
#endif
#ifdef REACH_AGAIN
#define REACHED assert(!again)
#else
#define REACHED skip
#endif

/* Finds what has arrived whole: a command is the last of it. */
inline scan()
{
	at = taken;
	told = (r_state == WATCH -> START : (r_state == DRAIN_TCP -> r_switch : delivered));
	if
	:: r_state == DRAIN_TCP || r_state == ONRING ->
		do
		:: at < ITEMS && tag[at] == r_key && mem[at] < BYTES -> at++; told++
		:: at < ITEMS && tag[at] == r_key && mem[at] == FALLBACK_TX -> at++; break
		:: else -> break
		od;
		ring_limit = at; is_limited = 1
	:: else -> r_state = TCP; r_left = 1
	fi;
	at = 0
}

inline rx_renew()
{
	r_renews = 0; r_key = b_epoch; taken = 0; r_state = TCP; r_left = 0
}

/* When the last of it is read, or nothing had arrived: continues with the TCP socket. */
inline thaw()
{
	if
	:: is_limited && ((r_state != DRAIN_TCP && (taken == ring_limit || r_state == TCP)) ||
			 (r_state == DRAIN_TCP && taken == ring_limit)) ->
		is_limited = 0; r_left = 1; r_state = TCP;
		if
		:: r_renews -> rx_renew()
		:: else
		fi
	:: else
	fi
}

inline b_broken()
{
	b_up = 0; b_est = 0;
	if
	:: r_state == WATCH && slot && mem[taken] == RINGW ->
		taken++; r_switch = start; r_state = DRAIN_TCP
	:: else
	fi;
	if
	:: r_state == DRAIN_TCP && delivered == r_switch -> r_state = ONRING
	:: else
	fi;
	b2a!BREAK(b_epoch, 0);
	if
	:: is_limited || r_left -> told = delivered /* nothing was put since the last break */
	:: else -> scan()
	fi;
#ifdef READ_SO_FAR
	told = (told == START -> START : (delivered > r_switch -> delivered : told));
#endif
	b2a!RESUME(b_epoch, told);
	told = 0;
	thaw()
}

active proctype receiver()
{
	mtype what;
	byte b, e, p;

	do
	:: atomic { propose_in == r_key && !r_left && !is_limited && r_state == TCP ->
		propose_in = 0; r_state = WATCH; watch_out = r_key }
	:: atomic { r_state == WATCH && slot && mem[taken] == RINGW ->
		taken++; r_switch = start; r_state = DRAIN_TCP; credit_out = taken }
	:: atomic { r_state == DRAIN_TCP && delivered == r_switch -> r_state = ONRING }
	:: atomic { (r_state == TCP || r_state == WATCH ||
		(r_state == DRAIN_TCP && delivered < r_switch)) &&
		    tcp?[b] -> tcp?b; assert(b == delivered); delivered++ }
	:: atomic { r_state == ONRING && slot && mem[taken] < BYTES ->
		assert(mem[taken] == delivered); delivered++; taken++;
		again = r_key > 1; REACHED; thaw() }
	:: atomic { r_state == ONRING && slot && mem[taken] == FALLBACK_TX ->
		taken++; r_state = TCP; thaw() }
	/* Credit arrives at any time, and is accepted only with its own key. */
	:: atomic { b_up && !is_limited && !r_left && credit_out < taken && r_key == key ->
		credit_out = taken }

	:: atomic { b_up && !rail -> b_broken() }
	:: atomic { !b_up && !rail && b_est -> b_est = 0 }
	:: atomic { rail && !b_up && !b_est && b_epoch == rail_epoch ->
		b_est = 1; b2a!RAIL(b_epoch, 0) }
	:: atomic { b_est && b_heard && !b_up ->
		b_up = 1; r_renews = 1;
		if
		:: !is_limited -> rx_renew()
		:: else
		fi;
		b2a!RING(b_epoch, 0) }
	:: atomic { a2b?what, e, p ->
		if
		:: what == BREAK && b_up && e == b_epoch -> b_broken()
		:: what == RAIL && e == b_epoch -> b_heard = 1
		:: else
		fi }
	:: atomic { done_a && delivered == BYTES -> break }
	od
}

/*
 * ---- breaks, and the next rail: an end accepts it only when it knows that the last one broke ----
 */
active proctype world()
{
end:
	do
	:: atomic { rail && breaks < BREAKS -> rail = 0; breaks++ }
	:: atomic { !rail && !a_up && !b_up && !a_est && !b_est ->
		rail = 1; rail_epoch++; a_epoch = rail_epoch; b_epoch = rail_epoch;
		a_heard = 0; b_heard = 0;
		propose_out = 0; watch_out = 0; credit_out = credit_in }
	od
}
