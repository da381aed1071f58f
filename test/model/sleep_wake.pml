/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Announced sleep (stream/wait.*, fabric due): a waiter sets its bit in the stream's want word, makes a full
 * fence, looks once more, and sleeps on its own bell: an epoll set of its own that has an edge for each ring
 * (fabric/doorbell.h). It takes the edge out before it announces the next time, not when it wakes: what was rung
 * between belongs to what the next look sees. The sender puts the slot, makes a
 * full fence, takes the want word (exchange with 0) and rings the bell of every bit in it.
 *
 * Three kinds of sleeper share one stream, as in a program that reads in one thread and polls in another:
 *   READER   takes the message and sleeps again for the next one;
 *   POLLER   only has to see each message (it is level: what is there stays there until taken);
 *   EPOLL    sleeps on an edge-triggered bell in an epoll set and looks into the ready map when it comes back.
 *
 * Plain stores go through a store buffer per processor (x86-TSO), which drains at any time; a fence and an atomic
 * read-modify-write wait until their own is empty. So a flag and a slot can pass each other, as they do in fact.
 *
 * Claims: no assertion fails and nobody is left asleep (invalid end state) while a message is there; and each sleeper
 * gets all MESSAGES (got_all). Without either fence both are false.
 */
/* CC: -DNFAIR=3 */
/* PAN: -f */
/* MUTANT: -DNO_WAITER_FENCE */
/* MUTANT: -DNO_SENDER_FENCE */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DRING_ONE_BELL */
/* MUTANT: -DHUSH_LATE */

#define MESSAGES 2
#define READER	 0
#define POLLER	 1
#define EPOLL	 2
#define SLEEPERS 3

byte put;	 /* messages that the others can see: the ring, as memory shows it */
byte put_buffer; /* the sender's store buffer: newest value of put not yet visible; put == put_buffer: empty */

bit want[SLEEPERS];	   /* the want word, as memory shows it */
bit want_buffer[SLEEPERS]; /* the waiter's store of its bit, not visible yet */
bit doorbell[SLEEPERS];	   /* the edge that was not taken out yet; for EPOLL: that epoll_wait has not reported yet */
byte got[SLEEPERS];	   /* messages each has seen */

/* Store buffers drain when they like. */
active proctype drain()
{
end:
	do
	:: atomic { put != put_buffer -> put = put_buffer }
	:: atomic { want_buffer[READER] -> want[READER] = 1; want_buffer[READER] = 0 }
	:: atomic { want_buffer[POLLER] -> want[POLLER] = 1; want_buffer[POLLER] = 0 }
	:: atomic { want_buffer[EPOLL] -> want[EPOLL] = 1; want_buffer[EPOLL] = 0 }
	od
}

/* seq_cst fence: goes on when the own store buffer is empty. */
inline sender_fence()
{
#ifndef NO_SENDER_FENCE
	put == put_buffer
#else
	skip
#endif
}

inline waiter_fence(me)
{
#ifndef NO_WAITER_FENCE
	!want_buffer[me]
#else
	skip
#endif
}

inline ring(me)
{
	if
	:: wanted[me] -> atomic { doorbell[me] = 1; wanted[me] = 0 }
	:: else
	fi
}

active proctype sender()
{
	bit wanted[SLEEPERS];

	do
	:: put_buffer < MESSAGES ->
		/* The next store waits for the one before: the buffer has one place. */
		atomic { put == put_buffer -> put_buffer = put + 1 }
		sender_fence();
		/* A load first, as the code does: only who finds a bit pays for the exchange. */
		if
		:: !want[READER] && !want[POLLER] && !want[EPOLL] -> skip
		:: else ->
			/* The exchange empties the own buffer and takes all bits at once. */
			atomic {
				put == put_buffer ->
				wanted[READER] = want[READER];
				wanted[POLLER] = want[POLLER];
				wanted[EPOLL] = want[EPOLL];
				want[READER] = 0;
				want[POLLER] = 0;
				want[EPOLL] = 0
			}
#ifdef RING_ONE_DOORBELL
			/* One word, one futex: whoever stands first is woken for all. */
			d_step {
				wanted[POLLER] = wanted[POLLER] && !wanted[READER];
				wanted[EPOLL] = wanted[EPOLL] && !wanted[READER] && !wanted[POLLER]
			}
#endif
			ring(READER);
			ring(POLLER);
			ring(EPOLL)
		fi
	:: else -> break
	od
}

/*
 * Something to see for @me? The reader: a message not taken. The others: one they have not seen; that a reader was
 * faster does not matter to them, they saw it through the ready word, which counts.
 */
#define NEWS(me) (put > got[me])

inline see(me)
{
	d_step {
		assert(got[me] < put);
		if
		:: me == READER -> got[me]++
		:: else -> got[me] = put
		fi
	}
}

proctype waiter(byte me)
{
	do
	:: got[me] == MESSAGES -> break
	:: NEWS(me) -> see(me)
	:: got[me] < MESSAGES && !NEWS(me) ->
#ifndef HUSH_LATE
		/* rsk_doorbell_ready(); the application's set reports its edge as it wakes. */
		if
		:: me != EPOLL -> doorbell[me] = 0
		:: else
		fi;
#endif
		want_buffer[me] = 1;
		waiter_fence(me);
#ifndef NO_SECOND_LOOK
		if
		:: NEWS(me) -> goto again /* the bit stays: a wake too many does no harm */
		:: else
		fi;
#endif
#ifdef HUSH_LATE
		/* Behind the look: a ring that came since is gone with it. */
		doorbell[me] = 0;
#endif
		/* Asleep: ppoll() on the set, which stays as it is, or epoll_wait() and its edge. */
		if
		:: me == EPOLL -> atomic { doorbell[me] -> doorbell[me] = 0 }
		:: else -> doorbell[me]
		fi;
again:		skip
	od
}

init {
	atomic {
		run waiter(READER);
		run waiter(POLLER);
		run waiter(EPOLL)
	}
}

#define ALL (got[READER] == MESSAGES && got[POLLER] == MESSAGES && got[EPOLL] == MESSAGES)
ltl got_all { <> ALL }
