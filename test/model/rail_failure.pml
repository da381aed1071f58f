/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rail_failure.pml - model, checked by run.sh, of what two progress threads tell each other about a
 * failed rail: RAIL_DOWN, MISSING, MISSING_END (SAY_RAIL_DOWN and so on). These messages
 * go by two ways at once: the control connection, which delivers all of them in order, at some
 * time, and the rails that are up, which deliver them at once, each in order, until one fails with
 * what it carries (stream/remote/rail_failure.c; docs/adr/rails.md). The messages about one
 * incarnation of a rail are numbered; the receiver handles them in that order, each once, from
 * whichever way delivers it first. RAIL goes by the control connection alone. In this model one
 * rail fails and comes back, while others are up; rails.pml, which has one way, shows what the link
 * does when the last rail fails.
 *
 * Claims: missing transactions are put again, and MISSING_END accepted, only when the other end has
 * closed that incarnation, and MISSING_END only after the MISSING that belongs to it; no message is
 * handled twice; in the end, whatever has failed or was lost, the rail is up at both ends, in one
 * incarnation (the assertion of whole(), reached when no other process can go on). The last mutant
 * is not a broken protocol: it reports as an error a state that must be reachable, MISSING_END
 * handled before the control connection has delivered RAIL_DOWN.
 */
/* MUTANT: -DANY_TURN */
/* MUTANT: -DEACH_AGAIN */
/* MUTANT: -DNO_CONNECTION */
/* MUTANT: -DREACH */

#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef PATHS
#define PATHS 1 /* how often the messages under way on another rail are lost */
#endif
#ifndef VAIN
#define VAIN 1 /* dials that are not accepted */
#endif

#define A 0
#define B 1

mtype = { IDLE, COMING, UP, GONE };
mtype = { SAY_RAIL_DOWN, SAY_MISSING, SAY_MISSING_END, SAY_RAIL };

/* Message, incarnation of the rail, number of the message for that incarnation. */
chan by_tcp[2] = [12] of { mtype, byte, byte };  /* indexed by the receiving end */
chan by_rail[2] = [4] of { mtype, byte, byte };

mtype state[2] = IDLE;
byte generation[2], pair[2]; /* incarnation of the queue pair that is open; 0: none */
bit established[2], heard[2];
byte told[2]; /* the newest incarnation for which this end has sent what is missing */
/* number of the next message to handle, and for which incarnation */
byte heard_generation[2], turn[2];
bit gap_said[2], gap_heard[2]; /* of that incarnation */
bit early;
byte deaths, paths, vain;

hidden mtype what;
hidden byte lf, number;

/* Also by the rails, if they have room. */
inline say(e, word, which_life, n)
{
	assert(nfull(by_tcp[1 - e]));
#ifndef NO_CONNECTION
	by_tcp[1 - e]!word(which_life, n);
#endif
	if
	:: nfull(by_rail[1 - e]) -> by_rail[1 - e]!word(which_life, n)
	:: true
	fi
}

inline say_rail(e)
{
	assert(nfull(by_tcp[1 - e]));
	by_tcp[1 - e]!SAY_RAIL(generation[e], 0)
}

/* The queue pair is closed. Some transactions may be missing, or none. */
inline say_lost(e, which_life)
{
	if
	:: which_life > told[e] ->
		told[e] = which_life;
		say(e, SAY_RAIL_DOWN, which_life, 0);
		if
		:: gap_said[e] = 1; say(e, SAY_MISSING, which_life, 1);
			say(e, SAY_MISSING_END, which_life, 2)
		:: gap_said[e] = 0; say(e, SAY_MISSING_END, which_life, 1)
		fi
	:: else
	fi
}

inline lost(e)
{
	pair[e] = 0;
	state[e] = GONE; established[e] = 0; heard[e] = 0;
	say_lost(e, generation[e])
}

inline idle(e)
{
	pair[e] = 0;
	state[e] = IDLE; established[e] = 0; heard[e] = 0
}

inline rail_down(e)
{
	if
	:: state[e] == UP || established[e] -> lost(e)
	:: else -> idle(e)
	fi
}

inline see_up(e)
{
	if
	:: established[e] && heard[e] && state[e] == COMING -> state[e] = UP
	:: else
	fi
}

#define closed_there(e) (pair[1 - e] != generation[e])

inline on_lost(e)
{
	if
	:: lf == generation[e] && (state[e] == UP || state[e] == COMING) -> lost(e)
	:: lf == generation[e] && state[e] == IDLE -> say_lost(e, lf)
	:: lf < generation[e] -> say_lost(e, lf) /* it has dialed since */
	:: else
	fi
}

inline on_gap(e)
{
	if
	:: lf == generation[e] && state[e] == GONE ->
		assert(closed_there(e));
		assert(!gap_heard[e]);
		gap_heard[e] = 1
	:: else
	fi
}

inline on_named(e)
{
	if
	:: lf == generation[e] && state[e] == GONE ->
		assert(closed_there(e));
		assert(gap_heard[e] == gap_said[1 - e]);
		idle(e)
	:: else
	fi
}

inline hear(e)
{
	if
	:: lf > heard_generation[e] && number == 0 ->
		heard_generation[e] = lf; turn[e] = 0; gap_heard[e] = 0
	:: else
	fi;
	if
#ifdef ANY_TURN
	:: lf == heard_generation[e] && number >= turn[e] ->
		turn[e] = number + 1;
#else
#ifdef EACH_AGAIN
	:: lf == heard_generation[e] && number <= turn[e] ->
		turn[e] = (number == turn[e] -> turn[e] + 1 : turn[e]);
#else
	:: lf == heard_generation[e] && number == turn[e] ->
		turn[e]++;
#endif
#endif
		if
		:: what == SAY_RAIL_DOWN -> on_lost(e)
		:: what == SAY_MISSING -> on_gap(e)
		:: what == SAY_MISSING_END -> on_named(e)
		fi
	:: else
	fi
}

inline on_rail(e)
{
	if
	:: state[e] == COMING && lf == generation[e] && !heard[e] -> heard[e] = 1; see_up(e)
	:: else
	fi
}

#define quiet (empty(by_tcp[A]) && empty(by_tcp[B]) && empty(by_rail[A]) && empty(by_rail[B]))

proctype progress_thread(byte e)
{
end:	do
	/* Established here: at A first, whose library then tells B's. */
	:: atomic {
		state[e] == COMING && !established[e] && pair[e] == pair[1 - e] && pair[e] &&
			(e == A || established[A] || state[A] == UP) ->
		established[e] = 1; say_rail(e); see_up(e)
	   }
	:: atomic { pair[e] && deaths < DEATHS && pair[1 - e] == pair[e] -> deaths++; rail_down(e) }
	/* The other end has closed it, or dialed anew: noticed at some time. */
	:: atomic { pair[e] && pair[1 - e] != pair[e] -> rail_down(e) }
	:: atomic {
		by_tcp[e]?what(lf, number) ->
		if
		:: what == SAY_RAIL -> on_rail(e)
		:: else -> hear(e)
		fi
	   }
	:: atomic {
		by_rail[e]?what(lf, number) ->
#ifdef REACH
		early = early ||
			(what == SAY_MISSING_END && lf == heard_generation[e] &&
				number == turn[e] && len(by_tcp[e]) > 1);
		assert(!early);
#endif
		hear(e)
	   }
	od
}

/* A dials; B accepts, with the next incarnation, unless its previous one is still open. */
proctype dialer()
{
end:	do
	:: atomic {
		state[A] == IDLE && state[B] != GONE && state[B] != UP ->
		generation[A]++;
		generation[B] = generation[A];
		established[A] = 0; heard[A] = 0; established[B] = 0; heard[B] = 0;
		state[A] = COMING; state[B] = COMING;
		pair[A] = generation[A]; pair[B] = generation[A]
	   }
	:: atomic { state[A] == IDLE && (state[B] == GONE || state[B] == UP) && vain < VAIN ->
		vain++; generation[A]++ }
	od
}

proctype network()
{
end:	do
	:: atomic {
		paths < PATHS && (nempty(by_rail[A]) || nempty(by_rail[B])) ->
		paths++;
		do
		:: nempty(by_rail[A]) -> by_rail[A]?what(lf, number)
		:: nempty(by_rail[B]) -> by_rail[B]?what(lf, number)
		:: empty(by_rail[A]) && empty(by_rail[B]) -> break
		od;
		what = SAY_RAIL; lf = 0; number = 0
	   }
	od
}

proctype whole()
{
end:	atomic { timeout -> assert(quiet && state[A] == UP && state[B] == UP &&
		generation[A] == generation[B]) }
}

init {
	atomic {
		run progress_thread(A); run progress_thread(B); run dialer(); run network();
		run whole()
	}
}
