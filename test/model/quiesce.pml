/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quiesce.pml - model, checked by run.sh, of a receiver between hosts that leaves the ring with
 * slots unread, for a program that uses the kernel's socket alone (rsk_rx_quiesce() of
 * stream/ring/rx_quiesce.c, rsk_tx_on_quiesced(); a fork, an exec, a socket that is passed on). It
 * sends QUIESCED(from here) and is quiesced: it takes nothing more, from either path. The sender
 * answers in the ring, in order with its slots, in one of two ways. It puts RETRANSMIT, and repeats
 * from there by TCP, before anything newer, but not before the rail has acknowledged RETRANSMIT. Or
 * it had fallen back already, and the receiver finds FALLBACK_TX in the ring, and reads on. So no
 * other message is needed, and whatever happens to either end or to the rail in between, the
 * receiver's memory shows which of the two it is. RETRANSMIT may be damaged there. The sender's
 * control word says the same, and lands in its own time, ahead of slots or behind them.
 *
 * The rail may break: the quiesced receiver sends RESUME(from there), over the control connection,
 * which is in order, and is off the ring; the sender, which may have put RETRANSMIT, repeats when
 * it receives that. The link may end for good, and each end notices that in its own time: a
 * receiver that is still quiesced reads on, and a sender that still holds what it would repeat
 * resets the stream. A reset may lose what is not delivered; it never makes a wrong byte.
 *
 * What a call or a round of a progress thread does under the stream's lock is one step. Slots
 * arrive in order.
 *
 * Claims: bytes arrive as 0, 1, 2, ..., in whichever program reads them (assertions); no process is
 * left waiting (invalid end states); unless the link ends all of them arrive. The last two
 * mutants are not broken protocols: they report as an error a state that must be reachable, that
 * bytes which were unread in the ring are read from TCP, and that RETRANSMIT is damaged.
 */
/* MUTANT: -DNOT_HELD */
/* MUTANT: -DMOVE_REPEATS */
/* MUTANT: -DREAD_ON */
/* MUTANT: -DREACH_REPEAT */
/* MUTANT: -DREACH_WORD */

#define BYTES 3
#define ITEMS (BYTES + 1)
#define FALLBACK_TX  101
#define RETRANSMIT 102
#define DAMAGED 103
#define NONE  255

mtype = { ONRING, TCP, RESEND, BROKEN };

chan control = [1] of { byte }; /* RESUME, from the receiver to the sender */
chan tcp = [2 * BYTES] of { byte };

byte item[ITEMS], mem[ITEMS]; /* as put; as the receiver's memory has them, NONE: not yet */
byte put, landed, acked;
bit rail = 1;		/* writes go through */
bit link = 1;		/* the control connection is up */
bit reset;		/* the stream ended with an error, which both see */
byte back = NONE;	/* the control word QUIESCED, as the sender sees it */
byte said = NONE;	/* as the receiver has put it */
byte answer;		/* index behind RETRANSMIT, by control word; 0: not put */
bit word;		/* that control word has landed */

init {
	atomic {
		mem[0] = NONE; mem[1] = NONE; mem[2] = NONE; mem[3] = NONE;
		run wire(); run sender(); run receiver(); run world()
	}
}

proctype wire()
{
end:
	do
	:: atomic { rail && landed < put ->
		if
		:: item[landed] == RETRANSMIT -> mem[landed] = DAMAGED
		:: mem[landed] = item[landed]
		fi;
		landed++ }
	:: atomic { rail && answer && !word -> word = 1 }
	:: atomic { rail && acked < landed -> acked++ }
	:: atomic { rail && back != said -> back = said }
	od
}

/* ---- the sender ---- */
mtype state = ONRING;
byte pos, from; /* of the next byte; of the next byte to repeat */
bit held, heard_end, a_broke, all_sent;

proctype sender()
{
	byte p;

	do
	:: atomic { state == ONRING && rail && pos < BYTES -> item[put] = pos; put++; pos++ }
	:: atomic { state == ONRING && rail && back == NONE ->
		item[put] = FALLBACK_TX; put++; state = TCP }
	/* Applies QUIESCED. */
	:: atomic { state == ONRING && back != NONE ->
		from = back; back = NONE; said = NONE; state = RESEND;
		if
		:: rail -> item[put] = RETRANSMIT; put++; answer = put
		:: else
		fi;
#ifndef NOT_HELD
		held = 1
#endif
		}
#ifdef MOVE_REPEATS
	:: atomic { state == TCP && back != NONE && from == 0 ->
		from = back; back = NONE; said = NONE; state = RESEND }
#endif
	:: atomic { held && rail && acked == put -> held = 0 }
	:: atomic { state == RESEND && !held && from < pos -> tcp!from; from++ }
	:: atomic { state == RESEND && !held && from == pos -> state = TCP }
	/* Newer bytes: not before what was put is acknowledged, or can have no effect any more. */
	:: atomic { state == TCP && pos < BYTES && (acked == put || a_broke) -> tcp!pos; pos++ }

	:: atomic { !rail && !a_broke ->
		a_broke = 1;
		if
		:: state == ONRING || (state == TCP && acked < put) -> state = BROKEN
		:: else
		fi }
	:: atomic { control?[p] && a_broke ->
		control?p;
		held = 0;
		if
		:: state == BROKEN -> from = p; state = RESEND
		:: else
		fi }
	/* The end of the link; messages that were sent before it are received before it. */
	:: atomic { !link && empty(control) && !heard_end ->
		heard_end = 1; a_broke = 1;
		if
		:: held && rail && acked == put -> held = 0
		:: else
		fi;
		if
		:: held && from == pos -> held = 0
		:: else
		fi;
		if
		:: held || state == BROKEN || state == ONRING || (state == TCP && acked < put) ->
			reset = 1
		:: else
		fi }
	:: atomic { reset -> break }
	:: atomic { pos == BYTES && state == TCP && acked == put -> all_sent = 1; break }
	:: atomic { pos == BYTES && state == TCP && a_broke -> all_sent = 1; break }
	od
}

/* ---- the receiver: this program, and later one that uses the kernel's socket alone ---- */
bit on = 1, quiesced, asked, b_broke, ring_limit, lost, kernel_alone;
byte delivered, taken, quiesced_at;

/* Finds the first command behind the slots in the ring. */
#define at(i, what) (i < ITEMS && mem[i] == what)
inline see_answer()
{
	byte i = taken;

	do
	:: i < ITEMS && mem[i] < BYTES -> i++
	:: else -> break
	od;
	if
	:: at(i, RETRANSMIT) -> taken = i + 1; on = 0; quiesced = 0; kernel_alone = 1
	:: word && !at(i, RETRANSMIT) ->
#ifdef REACH_WORD
		assert(!at(answer - 1, DAMAGED));
#endif
		taken = answer; on = 0; quiesced = 0; kernel_alone = 1
	:: at(i, FALLBACK_TX) -> quiesced = 0
	:: else
	fi;
	i = 0
}

proctype receiver()
{
	byte b;

	do
	:: atomic { on && !quiesced && taken < ITEMS && mem[taken] < BYTES ->
		assert(mem[taken] == delivered); delivered++; taken++ }
	:: atomic { on && !quiesced && at(taken, FALLBACK_TX) -> taken++; on = 0 }
	:: atomic { !on && tcp?[b] ->
		tcp?b;
#ifdef REACH_REPEAT
		assert(!(kernel_alone && b < pos && landed > 1 && b == 0));
#endif
		assert(b == delivered); delivered++ }
#ifdef READ_ON
	:: atomic { quiesced && taken < ITEMS && mem[taken] < BYTES -> delivered++; taken++ }
#endif
	/* Once, and not after it saw that the sender has fallen back. */
	:: atomic { on && !asked && !b_broke && link ->
		asked = 1; quiesced = 1; quiesced_at = delivered; said = delivered; see_answer() }
	:: atomic { quiesced && (landed > taken || word) -> see_answer() }

	/* The rail broke; what has arrived is read, and then the TCP socket. */
	:: atomic { !rail && !b_broke && link ->
		b_broke = 1;
		if
		:: quiesced -> see_answer()
		:: else
		fi;
		if
		:: quiesced -> control!quiesced_at; quiesced = 0; on = 0; kernel_alone = 1
		:: !quiesced && on ->
			byte i = taken, told = delivered;
			do
			:: i < ITEMS && mem[i] < BYTES -> i++; told++
			:: else -> break
			od;
			ring_limit = 1;
			control!told;
			i = 0; told = 0
		:: else -> control!delivered
		fi }
	:: atomic { ring_limit && on &&
		!(taken < ITEMS && (mem[taken] < BYTES || mem[taken] == FALLBACK_TX)) -> on = 0 }

	:: atomic { !link && !lost ->
		lost = 1;
		if
		:: quiesced -> see_answer()
		:: else
		fi;
		quiesced = 0 }
	/* The sender died on the ring, and it is unknown what it had put. */
	:: atomic { lost && on && !ring_limit &&
		!(taken < ITEMS && mem[taken] != NONE && mem[taken] != DAMAGED) -> reset = 1 }
	:: atomic { reset -> break }
	:: atomic { all_sent && delivered == BYTES -> break }
	od
}

proctype world()
{
end:
	do
	:: atomic { rail -> rail = 0 }
	:: atomic { link -> link = 0; rail = 0 }
	od
}
