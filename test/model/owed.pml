/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owed.pml - model, checked by run.sh, of a direction whose rail breaks while the sender is killed
 * at any moment: before, while, or after it repeats by TCP what did not arrive
 * (stream/ring/rx_break.c, rsk_rx_tcp_at_end() of stream/ring/rx_end.c; rsk_tx_owed_to(),
 * rsk_tx_resume(); rsk_recovery_resume(), rsk_recovery_lost() of stream/remote/recovery_break.c).
 * The sender's kernel sends the bytes that it had taken, then the end. So does the control
 * connection, by which each end sends RESUME(so much has arrived here, so far had I put), and whose
 * end is GONE. The receiver may show the application an orderly end of TCP only where no byte that
 * the sender had taken is missing.
 *
 * The model has one promotion, from its middle on (the receiver watches), one rail, and no
 * FALLBACK_TX: resume.pml has those.
 *
 * Claims: bytes arrive in order; before an orderly end none is missing (assertions); each run comes
 * to an end, orderly or by a reset (invalid end states). The last mutant is not a broken protocol:
 * it reports as an error a state that must be reachable, an orderly end after bytes that were
 * repeated.
 */
/* MUTANT: -DEVERY_END */
/* MUTANT: -DUNKNOWN_IS_NONE */
/* MUTANT: -DWATCH_IS_TCP */
/* MUTANT: -DNOT_WAITING */
/* MUTANT: -DREACH_REPEATED */

#define BYTES 3
#define SLOTS (BYTES + 1)
#define RINGW 100 /* "on the ring from start on" */
#define END   101
#define START 102 /* RSK_POS_START */
#define NONE  103 /* no byte is missing */

mtype = { TCP, WATCHED, ONRING, BROKEN, RESEND, WATCH, DRAIN_TCP, NOTHING, UNKNOWN, OWED_TO };

chan tcp = [2 * BYTES + 1] of { byte };
chan a2b = [2] of { byte, byte }; /* 0: RESUME(owed); 1: GONE */
chan b2a = [1] of { byte };	  /* RESUME(arrived) */

bit rail = 1;
byte item[SLOTS], mem[SLOTS], put, landed;

active proctype wire()
{
end_broken:
	do
	:: atomic { rail && landed < put -> mem[landed] = item[landed]; landed++ }
	:: atomic { rail -> rail = 0; break }
	od
}

/* ---- the sender ---- */
mtype state = WATCHED;
byte pos, start, from;
bit a_broken, repeated;

inline a_breaks()
{
	a_broken = 1;
	if
	:: state == ONRING -> state = BROKEN
	:: else -> state = TCP
	fi;
	a2b!0, (state == BROKEN -> pos : NONE)
}

active proctype sender()
{
	byte come;

	do
	:: atomic { (state == TCP || state == WATCHED) && pos < BYTES -> tcp!pos; pos++ }
	:: atomic { state == WATCHED && !a_broken ->
		start = pos; item[put] = RINGW; put++; state = ONRING }
	:: atomic { state == ONRING && pos < BYTES -> item[put] = pos; put++; pos++ }
	:: atomic { !rail && !a_broken -> a_breaks() }
	:: atomic { b2a?come ->
		if
		:: !a_broken -> a_breaks()
		:: else
		fi;
		if
		:: state == BROKEN ->
			from = (come == START -> start : come);
			assert(start <= from && from <= pos);
			state = (from == pos -> TCP : RESEND)
		:: else
		fi }
	:: atomic { state == RESEND && from < pos -> tcp!from; from++; repeated = 1;
		if
		:: from == pos -> state = TCP
		:: else
		fi }
	/* Killed, or ended: the reader cannot tell the difference. */
	:: atomic { tcp!END; a2b!1, 0; break }
	od
}

/* ---- the receiver ---- */
mtype r_state = WATCH, owed = NOTHING;
byte got, taken, ring_limit, to, told;
bit b_broken, lost, told_end;

#define slot (taken < landed && (!b_broken || taken < ring_limit))

inline see_word()
{
	if
	:: r_state == WATCH && taken < landed -> taken++; r_state = DRAIN_TCP
	:: else
	fi
}

inline b_breaks()
{
	b_broken = 1;
	rail = 0; /* nothing arrives any more */
	see_word();
	ring_limit = landed;
#ifdef WATCH_IS_TCP
	owed = (r_state == WATCH || r_state == TCP -> NOTHING : UNKNOWN);
#else
	owed = (r_state == TCP -> NOTHING : UNKNOWN);
#endif
	if
	:: r_state == WATCH -> told = START
	:: r_state == DRAIN_TCP -> told = start + (ring_limit - taken)
	:: else -> told = got + (ring_limit - taken)
	fi;
	if
	:: r_state == WATCH -> r_state = TCP
	:: r_state == DRAIN_TCP && ring_limit == taken -> r_state = TCP
	:: else
	fi;
	b2a!told
}

inline in_order()
{
	assert(got == pos);
#ifdef REACH_REPEATED
	assert(!repeated);
#endif
	told_end = 1
}

active proctype receiver()
{
	byte b, what, arg;

	do
	:: atomic { r_state == WATCH && !b_broken && taken < landed -> see_word() }
	:: atomic { r_state == DRAIN_TCP && got == start -> r_state = ONRING }
	:: atomic { r_state == ONRING && slot -> assert(mem[taken] == got); got++; taken++ }
	:: atomic { r_state == ONRING && b_broken && taken == ring_limit -> r_state = TCP }
	:: atomic { (r_state == TCP || r_state == WATCH || (r_state == DRAIN_TCP && got < start)) &&
		    tcp?[b] && !tcp?[END] -> tcp?b; assert(b == got); got++ }
	:: atomic { !rail && !b_broken && !lost -> b_breaks() }
	:: atomic { a2b?what, arg ->
		if
		:: what == 0 ->
			if
			:: !b_broken -> b_breaks()
			:: else
			fi;
			if
			:: owed != NOTHING ->
				owed = (arg == NONE -> NOTHING : OWED_TO);
				to = arg
			:: else
			fi
		:: else ->
			lost = 1;
			rail = 0;
			if
			:: !b_broken -> see_word()
			:: else
			fi;
			if
#ifdef WATCH_IS_TCP
			:: r_state == WATCH -> r_state = TCP
#else
			:: r_state == WATCH -> r_state = TCP; owed = UNKNOWN
#endif
			:: else
			fi
		fi }

	/* TCP's end is next, on whichever path the receiver looks for it. */
	:: atomic { r_state == TCP && tcp?[END] && (owed != UNKNOWN || lost) ->
		if
#ifdef EVERY_END
		:: true -> in_order()
#endif
		:: owed == NOTHING || (owed == OWED_TO && got >= to) -> in_order()
#ifdef UNKNOWN_IS_NONE
		:: owed == UNKNOWN -> in_order()
#else
		:: owed == UNKNOWN -> told_end = 1
#endif
		:: owed == OWED_TO && got < to -> told_end = 1
		fi;
		break }
#ifdef NOT_WAITING
	:: atomic { r_state == TCP && tcp?[END] && owed == UNKNOWN && !lost -> in_order(); break }
#endif
	:: atomic { r_state == ONRING && tcp?[END] && lost && !slot && !b_broken ->
		told_end = 1; break }
	od;
	/* The application has seen the end: further messages have no effect. */
end_over:
	do
	:: a2b?what, arg
	od
}
