/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completions.pml - model, checked by run.sh, of the completions of a receive queue that all
 * threads of a process share (fabric/verbs/poll.c). Threads sleep on their own doorbell and on the
 * completion channel, and take completions for each other.
 *
 * A message of stream i is written to memory (data), then its completion is added to the queue: if
 * the queue is armed, it is disarmed and the channel becomes readable. A waiting thread announces
 * its sleep, checks its stream's memory once more, and sleeps until its doorbell rings or the
 * channel is readable. A thread that the channel wakes polls: under the lock it reads the event,
 * arms the queue if there was one, and takes the completions; then, without a lock, it rings the
 * doorbell of each stream's thread that has announced its sleep. A busy thread (SPINNER) polls at
 * any time, and may be the one that took the event.
 *
 * After BATCH rounds a poll stops, and makes the descriptor on which threads sleep readable (more);
 * here after each round.
 *
 * Claim: no thread sleeps for ever while its stream has a message (invalid end state; nothing here
 * goes on for ever without taking something). Each mutant loses a wake-up.
 */
/* MUTANT: -DTAKE_THEN_ARM */
/* MUTANT: -DNO_ARM */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DNO_DOORBELL */
/* MUTANT: -DNO_MORE */

#define STREAMS	 2
#define MESSAGES 2 /* of each stream */

byte data[STREAMS];  /* messages in memory */
byte got[STREAMS];   /* of those, seen by the stream's reader */
byte queue[STREAMS]; /* completions of each stream that were not taken */
bit armed = 1;
bit event; /* in the channel */
bit more;  /* the eventfd beside it */
bit announced[STREAMS];
bit doorbell[STREAMS];
bit lock;

#define COMPLETIONS (queue[0] + queue[1])

/* The device: memory first, then the completion. */
proctype message(byte i)
{
	byte n;

	do
	:: n < MESSAGES ->
		n++;
		data[i] = n;
		atomic {
			queue[i]++;
			if
			:: armed -> armed = 0; event = 1
			:: else
			fi
		}
	:: else -> break
	od
}

inline read_and_arm()
{
	if
	:: event -> event = 0;
#ifndef NO_ARM
		armed = 1
#endif
	:: else
	fi
}

/* Takes one completion, of either stream; t: its stream, or STREAMS: there is none. */
inline take()
{
	atomic {
		if
		:: queue[0] -> queue[0]--; t = 0
		:: queue[1] -> queue[1]--; t = 1
		:: COMPLETIONS == 0 -> t = STREAMS
		fi
	}
}

/* news(): ringing the doorbell also retracts the announcement. */
inline tell()
{
#ifndef NO_DOORBELL
	if
	:: t < STREAMS ->
		atomic {
			if
			:: announced[t] -> announced[t] = 0; doorbell[t] = 1
			:: else
			fi
		}
	:: else
	fi
#else
	skip
#endif
}

/* Takes one completion and stops, which is the worst case of the bound on its rounds. */
inline poll()
{
	more = 0;
	atomic { !lock -> lock = 1 }
#ifdef TAKE_THEN_ARM
	take();
	read_and_arm();
#else
	read_and_arm();
	take();
#endif
	lock = 0;
	tell();
#ifndef NO_MORE
	if
	:: t < STREAMS -> more = 1
	:: else
	fi
#endif
}

proctype reader(byte i)
{
	byte t;

	do
	:: got[i] == MESSAGES -> break
	:: got[i] < MESSAGES && data[i] > got[i] -> got[i] = data[i]
	:: got[i] < MESSAGES && data[i] == got[i] ->
		announced[i] = 1;
#ifndef NO_SECOND_LOOK
		if
		:: data[i] > got[i] -> announced[i] = 0; goto again
		:: else
		fi;
#endif
		if
		:: atomic { doorbell[i] -> doorbell[i] = 0 }
		:: event || more -> poll()
		fi;
		announced[i] = 0;
again:		skip
	od
}

/* A thread that never sleeps, and polls at any time. */
proctype spinner()
{
	byte t, n;

	do
	:: n < 1 -> n++; poll()
	:: break
	od
}

init {
	atomic {
		run message(0);
		run message(1);
		run reader(0);
		run reader(1);
		run spinner()
	}
}
