/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions of a receive queue that all threads of a process share (fabric/verbs/poll.c): threads that sleep on their
 * own bell and on the channel, and take completions for each other.
 *
 * A message of stream i lies in memory (data), then its completion comes into the queue: if the queue is armed, it is
 * disarmed and the channel becomes readable. A sleeper announces itself, looks at its stream's memory once more, and
 * sleeps until its bell rings or the channel is readable. Who wakes by the channel polls: under the lock, reads the
 * event, arms if there was one, takes what is there; then, with no lock, rings the bell of each stream's sleeper that
 * has announced itself. A busy thread (SPINNER) polls at any time, and may be the one that took the event.
 *
 * After BATCH rounds a poll leaves off, with a sign in the descriptor that is slept on (more): here after each one.
 *
 * Claim: nobody sleeps for ever while its stream has a message (invalid end state; nothing here goes on for ever without
 * taking something). Each of the mutants loses one.
 */
/* MUTANT: -DTAKE_THEN_ARM */
/* MUTANT: -DNO_ARM */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DNO_BELL */
/* MUTANT: -DNO_MORE */

#define STREAMS	 2
#define MESSAGES 2 /* of each stream */

byte data[STREAMS];  /* messages in memory */
byte got[STREAMS];   /* of those, seen by the stream's reader */
byte queue[STREAMS]; /* completions that nobody took, of each stream */
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

/* One completion, of either stream; t: whose, or STREAMS: there is none. */
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

/* news(): the sleeper's announcement is taken back with the ringing. */
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

/* It takes one and leaves off, which is the worst that the bound on its rounds can do. */
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

/* A thread that is never asleep, and polls as it likes. */
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
