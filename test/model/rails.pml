/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rails.pml - model, checked by run.sh, of one direction of a stream over a link of two rails, of
 * which any may fail at either end at any moment, and come back (stream/remote/rail_failure.c,
 * stream/remote/remote_rail.c, fabric/rails.c; docs/adr/rails.md). A puts the slots, and dials. B
 * accepts, reads, and gives credit by a control word; without credit A reuses no
 * cell of the ring.
 *
 * An end that sees a rail fail, or receives RAIL_DOWN for it, closes its queue pair, and sends
 * RAIL_DOWN. B names the missing slots (MISSING, SAY_MISSING), then sends MISSING_END
 * (SAY_MISSING_END). What is under way to an end arrives, in any order, or is lost, until that end
 * has closed. A puts again the slots that are named and were carried by that rail. The control word
 * goes by one rail, the lead, in order, and by another only when A has closed the first, too. A
 * rail is dialed again by an end that has received MISSING_END, and accepted by one that has, as
 * its next incarnation; it is up at an end where it is established and which has received RAIL. A
 * slot for which no rail leads to the ring yet (RING) is carried by no rail, until one does. When
 * an end has no rail left it sends BREAK, and everything begins anew in the next epoch, with the
 * first rail that is up. What becomes of the stream then is in resume.pml; here all that was put
 * counts as read (RESUME).
 *
 * The two control connections are FIFO. What a progress thread does in a round is one step, except
 * that it waits for the stream's lock to name missing slots, or to put again. The parts of a call
 * are separate steps: choose a rail and put by it; read and compose the control word, see which
 * rail is the lead, put. A's library sends the RTU by which a rail is established at B: not before
 * it is established at A.
 *
 * Claims: no slot overwrites a newer one, and no control word a newer one (assertions); in the end,
 * whatever has failed, all slots are read, A knows it, the ends agree on the epoch, all rails are
 * up at both ends, and no message is left (the assertion of whole(), reached whenever no other
 * process can go on; every run ends, since failures and vain dials are counted). The last two
 * mutants are not broken protocols: they report as errors states that must be reachable, a slot put
 * again by a rail that had failed itself, and the link up once more.
 */
/* CC: -DVECTORSZ=512 */
/* MUTANT: -DAGAIN_UNCLOSED */
/* MUTANT: -DNAMED_UNCLOSED */
/* MUTANT: -DALL_AGAIN */
/* MUTANT: -DANY_PATH */
/* MUTANT: -DNO_TAIL */
/* MUTANT: -DMESSAGE_UNCLOSED */
/* MUTANT: -DLEAD_FIRST */
/* MUTANT: -DDIAL_UNNAMED */
/* MUTANT: -DTAKE_UNNAMED */
/* MUTANT: -DOLD_LIFE_DEAF */
/* MUTANT: -DOLD_EPOCH */
/* MUTANT: -DREACH_AGAIN */
/* MUTANT: -DREACH_EPOCH */

#ifndef CELLS
#define CELLS 2 /* cells of the ring */
#endif
#ifndef SLOTS
#define SLOTS 4 /* at most 7: bits of a byte; the bits of a control word are 0 to SLOTS */
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef VAIN
#define VAIN 1 /* dials that B refuses because the link is down; the others B accepts */
#endif
#define RAILS  2
#define NOBODY 2

#define A      0
#define B      1
#define R(e, k) (2 * (e) + (k)) /* end @e of rail @k */

#define IDLE   0
#define COMING 1
#define UP     2
#define LOST   3

mtype = { SAY_RAIL_DOWN, SAY_MISSING, SAY_MISSING_END, SAY_RAIL, SAY_RING, SAY_BREAK };

/* Message, rail, incarnation, epoch, and for MISSING: a bit for each slot that has not arrived. */
chan to_a = [14] of { mtype, byte, byte, byte, byte };
chan to_b = [14] of { mtype, byte, byte, byte, byte };

/* ---- the rails, as each end sees them ---- */
byte state[4], generation[4], of_epoch[4];
byte pair[4]; /* incarnation of the queue pair that is open; 0: none */
bit established[4], heard[4];
byte rtu[RAILS]; /* the newest incarnation that was established at A */
bit up[2];
byte epoch[2];
byte deaths, vain;

/*
 * ---- under way: slots to B, control words to A; a bit each, for the rail's present incarnation
 * ----
 */
byte slots[RAILS], words[RAILS];

/* ---- the stream ---- */
byte mem[CELLS];     /* B's ring: 1 + the slot in the cell; 0: none */
byte next, credit;   /* A: the next slot to put; the credit in its mailbox */
byte carried[CELLS]; /* A: by which rail */
bit was_up[RAILS], leads[RAILS]; /* A: the failed rail was up; the rail leads to the ring */
byte taken;	     /* B: read, which is what its control word says */
/* B: the rail of the control word, or NOBODY; rails that led, and by which it may still arrive */
byte lead, open;
byte choice;	     /* A's call: the rail */
byte seen_lead;	     /* B's call */
bit tx_lock;
byte rx_lock;	     /* 2: the call has seen the lead */
/* B's progress thread waits for the lock, to name what is missing of this rail (number + 1) */
byte naming;
bit then_closed;     /* while it waits, it has received RAIL_DOWN */
bit again_by_back;

#define other(e, k)   R(1 - (e), k)
#define through(k)    (pair[R(A, k)] && pair[R(A, k)] == pair[R(B, k)])
#define rails_up(e)   (state[R(e, 0)] == UP || state[R(e, 1)] == UP)
#define has(set, bit) ((set >> (bit)) & 1)

hidden byte i, j, missing;

inline say(e, word, about, which_life, which_epoch, named)
{
	if
	:: e == A -> assert(nfull(to_b)); to_b!word(about, which_life, which_epoch, named)
	:: else -> assert(nfull(to_a)); to_a!word(about, which_life, which_epoch, named)
	fi
}

/* What is under way to the closed queue pair cannot arrive any more. */
inline close_pair(e, k)
{
	pair[R(e, k)] = 0;
	if
	:: e == A -> words[k] = 0
	:: else -> slots[k] = 0
	fi
}

inline idle(e, k)
{
	state[R(e, k)] = IDLE; established[R(e, k)] = 0; heard[R(e, k)] = 0; of_epoch[R(e, k)] = 0;
	if
	:: e == A -> was_up[k] = 0; leads[k] = 0
	:: else
	fi
}

/* ---- A's slots ---- */

/* Chooses a rail that leads to the ring, with the lowest or the highest number. */
inline choose(by, highest)
{
	if
	:: state[R(A, 1)] == UP && leads[1] && (highest || !(state[R(A, 0)] == UP && leads[0])) ->
		by = 1
	:: state[R(A, 0)] == UP && leads[0] &&
		(!highest || !(state[R(A, 1)] == UP && leads[1])) -> by = 0
	:: !(state[R(A, 0)] == UP && leads[0]) && !(state[R(A, 1)] == UP && leads[1]) -> by = NOBODY
	fi
}

inline put(slot, by)
{
	carried[(slot) % CELLS] = by;
	if
	:: by < RAILS && through(by) -> slots[by] = slots[by] | (1 << (slot))
	:: else
	fi
}

/* Puts again the slots that are named and were carried by @by_lost. */
inline again(by_lost, named)
{
	i = credit;
	do
	:: i < next ->
		if
#ifdef ANY_PATH
		:: has(named, i) ->
#else
		:: has(named, i) && carried[i % CELLS] == by_lost ->
#endif
			choose(j, 0);
			put(i, j);
			again_by_back = again_by_back || (j < RAILS && generation[R(A, j)] > 1);
			j = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* ---- B's control word ---- */

inline put_word(by)
{
	if
	:: by < RAILS && through(by) -> words[by] = words[by] | (1 << taken)
	:: else
	fi
}

inline find_lead()
{
	if
	:: lead == NOBODY && !open && state[R(B, 0)] == UP -> lead = 0; put_word(0)
	:: lead == NOBODY && !open && state[R(B, 0)] != UP && state[R(B, 1)] == UP ->
		lead = 1; put_word(1)
	:: else
	fi
}

inline closed(e, k)
{
	if
	:: e == B -> open = open & ~(1 << k); find_lead()
	:: else
	fi
}

/* ---- a rail fails ---- */

inline broken(e)
{
	up[e] = 0;
	close_pair(e, 0); close_pair(e, 1);
	idle(e, 0); idle(e, 1);
	if
	:: e == B -> lead = NOBODY; open = 0; naming = 0; then_closed = 0
	:: else
	fi;
	say(e, SAY_BREAK, 0, 0, epoch[e], 0)
}

inline say_lost(e, k)
{
	say(e, SAY_RAIL_DOWN, k, generation[R(e, k)], epoch[e], 0);
	if
	:: e == A -> say(e, SAY_MISSING_END, k, generation[R(e, k)], epoch[e], 0)
	:: else -> naming = k + 1
	fi
}

/* Its queue pair is closed. */
inline lost(e, k)
{
	if
	:: e == A && state[R(e, k)] == UP -> was_up[k] = 1; leads[k] = 0
	:: e == B && state[R(e, k)] == UP && lead == k -> open = open | (1 << k); lead = NOBODY
	:: else
	fi;
#ifdef DIAL_UNNAMED
	state[R(e, k)] = (e == A -> IDLE : LOST);
#else
	state[R(e, k)] = LOST;
#endif
	established[R(e, k)] = 0; heard[R(e, k)] = 0;
	if
	:: !rails_up(e) -> broken(e)
	:: else ->
		say_lost(e, k);
#ifdef MESSAGE_UNCLOSED
		if
		:: e == B -> open = 0; find_lead()
		:: else
		fi;
#endif
#ifdef AGAIN_UNCLOSED
		if
		:: e == A -> again(k, 255)
		:: else
		fi
#endif
	fi
}

#ifdef NAMED_UNCLOSED
#define CLOSE(e, k) if :: e == B && !(!up[e] || !rails_up(e)) :: else -> close_pair(e, k) fi
#else
#define CLOSE(e, k) close_pair(e, k)
#endif

/* A failure is noticed here: for any cause, or because the other end has closed it. */
#define goes(e, k) (pair[R(e, k)] && state[R(e, k)] != IDLE && state[R(e, k)] != LOST && \
		    (deaths < DEATHS || pair[other(e, k)] != pair[R(e, k)]))

inline rail_down(e, k)
{
	if
	:: pair[other(e, k)] == pair[R(e, k)] -> deaths++
	:: else
	fi;
	CLOSE(e, k);
	if
	:: up[e] && (state[R(e, k)] == UP || established[R(e, k)]) -> lost(e, k)
	:: else -> idle(e, k)
	fi
}

/* ---- a rail comes up ---- */

inline see_up(e, k)
{
	if
	:: established[R(e, k)] && heard[R(e, k)] && state[R(e, k)] == COMING ->
		state[R(e, k)] = UP;
		if
		:: !up[e] ->
			/* The other rail was dialed for the link's earlier epoch. */
			if
			:: state[R(e, 1 - k)] == COMING &&
				of_epoch[R(e, 1 - k)] != of_epoch[R(e, k)] ->
				close_pair(e, 1 - k); idle(e, 1 - k)
			:: else
			fi;
			epoch[e] = of_epoch[R(e, k)]; up[e] = 1
		:: else
		fi;
		/* not checked until it comes again */
		established[R(e, k)] = 0; heard[R(e, k)] = 0; of_epoch[R(e, k)] = 0;
		if
		:: e == A -> leads[k] = 0; was_up[k] = 0
		:: else -> find_lead(); say(B, SAY_RING, k, 0, 0, 0)
		fi
	:: else
	fi
}

inline rail_up(e, k)
{
	established[R(e, k)] = 1;
	if
	:: e == A -> rtu[k] = generation[R(e, k)]
	:: else
	fi;
	say(e, SAY_RAIL, k, generation[R(e, k)], of_epoch[R(e, k)], 0);
	see_up(e, k)
}

#ifdef TAKE_UNNAMED
#define takes(k) (state[R(B, k)] != UP)
#else
#define takes(k) (state[R(B, k)] <= COMING)
#endif
#define dialed_epoch (epoch[A] + 1 - up[A])
/*
 * Otherwise two rails may bring the link up and break it for ever, each at one end only; a dialer
 * that waits for a while avoids that.
 */
#define calm (up[A] || epoch[A] == 1 || \
	(empty(to_a) && empty(to_b) && !closed_there(0) && !closed_there(1)))
#define closed_there(k) (pair[R(B, k)] != pair[R(A, k)])
#define no_locks (!tx_lock && !rx_lock && !naming) /* the streams' locks; streams begin anew */
#define welcome(k) (takes(k) && (up[B] -> dialed_epoch == epoch[B] : dialed_epoch > epoch[B]))

/* RESUME was received, both ways. */
inline resume()
{
	taken = next; credit = next;
	i = 0;
	do
	:: i < CELLS -> mem[i] = 0; carried[i] = 0; i++
	:: else -> break
	od;
	i = 0
}

inline dial(k)
{
	generation[R(A, k)]++;
	if
	:: welcome(k) ->
		if
		:: !up[A] && !up[B] -> resume()
		:: else
		fi;
		/*
		 * The previous incarnation was established at B and not at A: nothing was put by
		 * it.
		 */
		close_pair(B, k);
		established[R(B, k)] = 0; heard[R(B, k)] = 0;
		state[R(A, k)] = COMING; state[R(B, k)] = COMING;
		generation[R(B, k)] = generation[R(A, k)];
		of_epoch[R(A, k)] = dialed_epoch; of_epoch[R(B, k)] = dialed_epoch;
		pair[R(A, k)] = generation[R(A, k)]; pair[R(B, k)] = generation[R(A, k)]
	:: else -> vain++
	fi
}

/* ---- messages ---- */

#define meant(e) (up[e] && ep == epoch[e] && lf == generation[R(e, rail)])

inline on_lost(e)
{
	if
	:: meant(e) ->
		if
		:: state[R(e, rail)] == UP || state[R(e, rail)] == COMING ->
			CLOSE(e, rail); lost(e, rail)
		:: state[R(e, rail)] == IDLE -> say_lost(e, rail)
		:: else
		fi;
		if
		:: e == B && naming -> then_closed = 1
		:: (e == A || !naming) && up[e] -> closed(e, rail)
		:: else
		fi
#ifndef OLD_LIFE_DEAF
	/* A had given up that incarnation, and has dialed since: nothing was put by it. */
	:: e == A && up[e] && ep == epoch[e] && lf < generation[R(e, rail)] ->
		say(e, SAY_RAIL_DOWN, rail, lf, ep, 0);
		say(e, SAY_MISSING_END, rail, lf, ep, 0)
#endif
	:: else
	fi
}

inline on_named(e)
{
	if
	:: meant(e) && state[R(e, rail)] == LOST -> idle(e, rail)
	:: else
	fi
}

inline on_rail(e)
{
	if
	:: state[R(e, rail)] == COMING && lf == generation[R(e, rail)] &&
		ep == of_epoch[R(e, rail)] && !heard[R(e, rail)] ->
		heard[R(e, rail)] = 1; see_up(e, rail)
	:: else
	fi
}

inline on_break(e)
{
	if
	:: up[e] && ep == epoch[e] -> broken(e)
#ifndef OLD_EPOCH
	/* It was up there, and not here: the next dial must be for a later epoch. */
	:: !up[e] && ep > epoch[e] ->
		epoch[e] = ep;
		rail = 0;
		do
		:: rail < RAILS ->
			if
			:: state[R(e, rail)] == COMING && of_epoch[R(e, rail)] <= ep ->
				close_pair(e, rail); idle(e, rail)
			:: else
			fi;
			rail++
		:: else -> break
		od
#endif
	:: else
	fi
}

/* ---- A ---- */

proctype a_call()
{
end:
	do
	:: atomic { up[A] && next < SLOTS && next - credit < CELLS && !tx_lock ->
		tx_lock = 1;
		if
		:: choose(choice, 0)
		:: choose(choice, 1)
		fi }
	:: atomic { tx_lock -> put(next, choice); next++; choice = 0; tx_lock = 0 }
	od
}

proctype a_progress()
{
	mtype what;
	byte rail, lf, ep, gaps;

end:
	do
	:: atomic { goes(A, 0) -> rail_down(A, 0) }
	:: atomic { goes(A, 1) -> rail_down(A, 1) }
	:: atomic { state[R(A, 0)] == COMING && !established[R(A, 0)] && through(0) ->
		rail_up(A, 0) }
	:: atomic { state[R(A, 1)] == COMING && !established[R(A, 1)] && through(1) ->
		rail_up(A, 1) }
	:: atomic { state[R(A, 0)] == IDLE && calm && (welcome(0) || (!up[A] && vain < VAIN)) &&
		    no_locks -> dial(0) }
	:: atomic { state[R(A, 1)] == IDLE && calm && (welcome(1) || (!up[A] && vain < VAIN)) &&
		    no_locks -> dial(1) }
	:: atomic { !tx_lock && nempty(to_a) ->
		to_a?what, rail, lf, ep, gaps;
		if
		:: what == SAY_RAIL_DOWN -> on_lost(A)
#ifdef DIAL_UNNAMED
		:: what == SAY_MISSING && meant(A) && state[R(A, rail)] == IDLE && was_up[rail] ->
			again(rail, gaps)
#elif defined(ALL_AGAIN)
		:: what == SAY_MISSING && meant(A) && state[R(A, rail)] == LOST && was_up[rail] ->
			again(rail, 255)
#else
		:: what == SAY_MISSING && meant(A) && state[R(A, rail)] == LOST && was_up[rail] ->
			again(rail, gaps)
#endif
		:: what == SAY_MISSING_END -> on_named(A)
		:: what == SAY_RAIL -> on_rail(A)
		:: what == SAY_RING && state[R(A, rail)] == UP ->
			leads[rail] = 1; again(NOBODY, 255)
		:: what == SAY_BREAK -> on_break(A)
		:: else
		fi;
		what = 0; rail = 0; lf = 0; ep = 0; gaps = 0 }
	od
}

/* ---- B ---- */

proctype b_call()
{
end:
	do
#ifdef LEAD_FIRST
	:: atomic { up[B] && !rx_lock && mem[taken % CELLS] == taken + 1 ->
		rx_lock = 1; seen_lead = lead }
	:: atomic { rx_lock == 1 -> taken++; rx_lock = 2 }
#else
	:: atomic { up[B] && !rx_lock && mem[taken % CELLS] == taken + 1 -> rx_lock = 1; taken++ }
	:: atomic { rx_lock == 1 -> seen_lead = lead; rx_lock = 2 }
#endif
	:: atomic { rx_lock == 2 -> put_word(seen_lead); seen_lead = 0; rx_lock = 0 }
	od
}

/* The last range of missing slots has no end. */
inline find_missing()
{
	i = SLOTS; missing = 0;
#ifdef NO_TAIL
	do
	:: i > taken && mem[(i - 1) % CELLS] != i -> i--
	:: else -> break
	od;
#endif
	do
	:: i > taken ->
		i--;
		missing = missing | ((mem[i % CELLS] != i + 1) << i)
	:: else -> break
	od;
	i = 0
}

proctype b_progress()
{
	mtype what;
	byte rail, lf, ep, gaps;

end:
	do
	:: atomic { naming && !rx_lock ->
		rail = naming - 1;
		find_missing();
		say(B, SAY_MISSING, rail, generation[R(B, rail)], epoch[B], missing);
		say(B, SAY_MISSING_END, rail, generation[R(B, rail)], epoch[B], 0);
		naming = 0; missing = 0;
		if
		:: then_closed -> then_closed = 0; closed(B, rail)
		:: else
		fi;
		rail = 0 }
	:: atomic { !naming && goes(B, 0) -> rail_down(B, 0) }
	:: atomic { !naming && goes(B, 1) -> rail_down(B, 1) }
	:: atomic { !naming && state[R(B, 0)] == COMING && !established[R(B, 0)] &&
		rtu[0] == generation[R(B, 0)] -> rail_up(B, 0) }
	:: atomic { !naming && state[R(B, 1)] == COMING && !established[R(B, 1)] &&
		rtu[1] == generation[R(B, 1)] -> rail_up(B, 1) }
#ifdef NAMED_UNCLOSED
	:: atomic { !naming && state[R(B, 0)] != UP && state[R(B, 0)] != COMING &&
		pair[R(B, 0)] -> close_pair(B, 0) }
	:: atomic { !naming && state[R(B, 1)] != UP && state[R(B, 1)] != COMING &&
		pair[R(B, 1)] -> close_pair(B, 1) }
#endif
	:: atomic { !naming && nempty(to_b) ->
		to_b?what, rail, lf, ep, gaps;
		if
		:: what == SAY_RAIL_DOWN -> on_lost(B)
		:: what == SAY_MISSING_END -> on_named(B)
		:: what == SAY_RAIL -> on_rail(B)
		:: what == SAY_BREAK -> on_break(B)
		:: else
		fi;
		what = 0; rail = 0; lf = 0; ep = 0; gaps = 0 }
	od
}

/* ---- what is under way arrives ---- */

inline land(k, slot)
{
	assert(mem[(slot) % CELLS] <= slot + 1);
	mem[(slot) % CELLS] = slot + 1; slots[k] = slots[k] & ~(1 << (slot))
}

/* One rail's control words arrive in order: the one with the least credit first. */
inline land_word(k)
{
	i = 0;
	do
	:: !has(words[k], i) -> i++
	:: else -> break
	od;
	assert(i >= credit);
	do
	:: credit < i -> carried[credit % CELLS] = 0; credit++
	:: else -> break
	od;
	words[k] = words[k] & ~(1 << i);
	i = 0
}

proctype wire()
{
	byte slot;

end:
	do
	:: atomic { slots[0] ->
		slot = 0;
		do
		:: has(slots[0], slot) -> break
		:: slots[0] >> (slot + 1) -> slot++
		od;
		land(0, slot); slot = 0 }
	:: atomic { slots[1] ->
		slot = 0;
		do
		:: has(slots[1], slot) -> break
		:: slots[1] >> (slot + 1) -> slot++
		od;
		land(1, slot); slot = 0 }
	:: atomic { words[0] -> land_word(0) }
	:: atomic { words[1] -> land_word(1) }
	od
}

#define all_up(e) (state[R(e, 0)] == UP && state[R(e, 1)] == UP && up[e])

proctype whole()
{
	timeout ->
		assert(next == SLOTS && taken == SLOTS && credit == SLOTS);
		assert(all_up(A) && all_up(B) && epoch[A] == epoch[B]);
		assert(empty(to_a) && empty(to_b) && lead != NOBODY && !open);
#ifdef REACH_AGAIN
		assert(!again_by_back);
#endif
#ifdef REACH_EPOCH
		assert(epoch[A] == 1);
#endif
}

/* ---- the link at the beginning: one rail, or both ---- */
init {
	atomic {
		up[A] = 1; up[B] = 1; epoch[A] = 1; epoch[B] = 1;
		state[R(A, 0)] = UP; state[R(B, 0)] = UP;
		generation[R(A, 0)] = 1; generation[R(B, 0)] = 1;
		pair[R(A, 0)] = 1; pair[R(B, 0)] = 1; leads[0] = 1;
		if
		:: state[R(A, 1)] = UP; state[R(B, 1)] = UP;
		   generation[R(A, 1)] = 1; generation[R(B, 1)] = 1;
		   pair[R(A, 1)] = 1; pair[R(B, 1)] = 1; leads[1] = 1
		:: true
		fi;
		run a_call(); run a_progress(); run b_call(); run b_progress(); run wire();
		run whole()
	}
}
