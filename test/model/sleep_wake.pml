/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sleep_wake.pml - model, checked by run.sh, of announced sleep (stream/wait.*, due() of the
 * fabric). A waiter sets its bit in the stream's want word, executes a full fence, checks once
 * more, and sleeps on its own doorbell: an epoll set of its own in which each ring of the doorbell
 * is an edge (fabric/doorbell.h). It takes the edge out before it announces the next sleep, not
 * when it wakes: a ring in between belongs to what the next check sees. The sender puts the slot,
 * executes a full fence, takes the want word (exchange with 0) and rings the doorbell of every bit
 * in it.
 *
 * Three kinds of waiters share one stream, as in a program that reads in one thread and polls in
 * another:
 *
 *   READER   takes the message and sleeps again for the next one;
 *   POLLER   only has to see each message (level-triggered: a message stays until it is taken);
 *   EPOLL    sleeps on an edge-triggered doorbell in an epoll set and checks the ready map when it
 *            wakes; so does a reader that sleeps on a set of stream/link/sleep_set.h.
 *
 * Plain stores go through a store buffer for each processor (x86-TSO), which drains at any time; a
 * fence and an atomic read-modify-write wait until the processor's own buffer is empty. So a flag
 * and a slot can be seen in either order, as on a real processor.
 *
 * Claims: no assertion fails and no thread is left asleep (invalid end state) while a message is
 * there; and each waiter gets all MESSAGES (got_all). Without either fence both are false.
 */
/* CC: -DNFAIR=3 */
/* PAN: -f */
/* MUTANT: -DNO_WAITER_FENCE */
/* MUTANT: -DNO_SENDER_FENCE */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DRING_ONE_DOORBELL */
/* MUTANT: -DHUSH_LATE */

#define MESSAGES 2
#define READER	 0
#define POLLER	 1
#define EPOLL	 2
#define SLEEPERS 3

byte put;	 /* messages that the others can see: the ring, as memory shows it */
/* the sender's store buffer: the newest value of put, not visible yet; equal to put: empty */
byte put_buffer;

bit want[SLEEPERS];	   /* the want word, as memory shows it */
bit want_buffer[SLEEPERS]; /* the waiter's store of its bit, not visible yet */
/* an edge that was not taken out yet; for EPOLL: one that epoll_wait has not reported yet */
bit doorbell[SLEEPERS];
byte got[SLEEPERS];	   /* messages each has seen */

/* Store buffers drain at any time. */
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

/* seq_cst fence: waits until the processor's own store buffer is empty. */
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
		/* A load first, as in the code: the exchange is needed only if a bit is set. */
		if
		:: !want[READER] && !want[POLLER] && !want[EPOLL] -> skip
		:: else ->
			/*
			 * The exchange empties the processor's own buffer and takes all bits at
			 * once.
			 */
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
			/* As with one word and one futex: only the first waiter is woken. */
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
 * True if there is something to see for @me. The reader: a message that was not taken. The others:
 * one that they have not seen; it does not matter to them whether a reader was faster, since they
 * saw it in the ready word, which counts.
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
		:: NEWS(me) -> goto again /* the bit stays: an unneeded wake-up does no harm */
		:: else
		fi;
#endif
#ifdef HUSH_LATE
		/* After the check: a ring that came in between is lost with it. */
		doorbell[me] = 0;
#endif
		/*
		 * Asleep: in ppoll() on the set, which does not change, or in epoll_wait(), which
		 * takes its edge.
		 */
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
