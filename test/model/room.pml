/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * room.pml - model, checked by run.sh, of a sender that sleeps for room (rsk_full_want_room() of
 * stream/ready/full.c, stream/ready/wait.c; rsk_stream_enough_room() of stream/socket/stream.h).
 * The sender stores the credit at which it wants to be woken (half the ring), sets its bit in the
 * want word, executes a full fence, checks the credit once more, and sleeps on its doorbell. The
 * reader gives credit for every CREDIT cells; only if that is as much as the sender asked for does
 * it execute a full fence, check the want word and notify the sender.
 *
 * Plain stores go through a store buffer for each processor (x86-TSO), as in sleep_wake.pml. The
 * credit that the sender asked for is stored before the fence, as its bit is. The reader loads it
 * without any order, and may see an older value; that is a smaller one, so the reader notifies too
 * early.
 *
 * Claims: no thread is left asleep (invalid end state) and all MESSAGES are taken (all_taken).
 */
/* CC: -DNFAIR=3 */
/* PAN: -f */
/* MUTANT: -DNO_SENDER_FENCE */
/* MUTANT: -DNO_READER_FENCE */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DWHOLE_RING */

#define CELLS	 4
#define CREDIT	 3
#define MESSAGES 7

#ifdef WHOLE_RING
#define ENOUGH CELLS /* credit comes in lumps: a control word may never give the last cells */
#else
#define ENOUGH (CELLS / 2)
#endif

byte put; /* slots ever put; visible at once, since the reader's sleep is not in this model */
byte credit;	       /* as memory shows it */
byte credit_buffer;    /* the reader's store that is not visible yet; equal: none */
byte room_at;	       /* as memory shows it */
byte room_at_buffer;   /* the sender's */
bit want, want_buffer; /* stored after room_at: the buffer keeps the order */
bit doorbell;
byte taken;

active proctype drain()
{
end:
	do
	:: atomic { credit != credit_buffer -> credit = credit_buffer }
	:: atomic { room_at != room_at_buffer -> room_at = room_at_buffer }
	:: atomic { want_buffer && room_at == room_at_buffer -> want = 1; want_buffer = 0 }
	od
}

active proctype sender()
{
	byte seen;

	do
	:: put == MESSAGES -> break
	:: put < MESSAGES && put - seen < CELLS -> put++
	:: put < MESSAGES && put - seen == CELLS ->
		seen = credit;
		if
		:: put - seen < CELLS -> goto again
		:: else
		fi;
		atomic { room_at == room_at_buffer -> room_at_buffer = put - CELLS + ENOUGH }
		want_buffer = 1;
#ifndef NO_SENDER_FENCE
		room_at == room_at_buffer && !want_buffer;
#endif
#ifndef NO_SECOND_LOOK
		seen = credit;
		if
		:: put - seen < CELLS -> goto again
		:: else
		fi;
#endif
		atomic { doorbell -> doorbell = 0 }
again:		skip
	od
}

active proctype reader()
{
	byte given;
	bit rings;

	do
	:: taken == MESSAGES -> break
	:: taken < put ->
		taken++;
		if
		:: taken - given < CREDIT -> skip
		:: else ->
			given = taken;
			atomic { credit == credit_buffer -> credit_buffer = given }
			rings = given >= room_at;
			if
			:: rings ->
#ifndef NO_READER_FENCE
				credit == credit_buffer;
#endif
				if
				:: want -> atomic { credit == credit_buffer -> want = 0 }
					   doorbell = 1
				:: else
				fi
			:: else
			fi
		fi
	od
}

ltl all_taken { <> (taken == MESSAGES) }
