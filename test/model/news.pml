/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * news.pml - model, checked by run.sh, of threads that sleep on their own wake eventfd alone while
 * the progress thread takes the completions for them (stream/link/news.c). completions.pml has the
 * order of arming and taking, which is one step here.
 *
 * A message of stream i is written to memory (data), then its completion is added to the queue; if
 * the queue is armed, the channel becomes readable. A reader announces its sleep, checks its
 * stream's memory once more, counts itself, calls the progress thread unless it hears the channel,
 * and sleeps until its eventfd is written to. The progress thread sleeps until it is called, or, if
 * it watches the channel, until that is readable; then it takes the completions, and looks whether
 * anybody relies on it: if not, it says so (heard), and looks once more before it stops watching.
 *
 * Claim: no thread sleeps for ever while its stream has a message (invalid end state). Each mutant
 * loses a wake-up.
 */
/* MUTANT: -DNO_CALL */
/* MUTANT: -DCOUNT_LATE */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DHEARD_STAYS */

#define STREAMS	 2
#define MESSAGES 2 /* of each stream */

byte data[STREAMS];  /* messages in memory */
byte got[STREAMS];   /* of those, seen by the stream's reader */
byte queue[STREAMS]; /* completions of each stream that were not taken */
bit armed = 1;
bit event; /* in the channel */
bit announced[STREAMS];
bit eventfd[STREAMS];
byte by_progress; /* news.by_progress */
bit heard;	  /* news.heard */
bit watched;	  /* the channel is in the progress thread's set */
bit call;	  /* of the progress thread */

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

inline count()
{
	by_progress++
}

inline call_unless_heard()
{
	if
	:: !heard ->
#ifndef NO_CALL
		call = 1
#else
		skip
#endif
	:: else
	fi
}

proctype reader(byte i)
{
	do
	:: got[i] == MESSAGES -> break
	:: else ->
		announced[i] = 1;
		if
		:: data[i] != got[i] ->
			got[i] = data[i];
			announced[i] = 0
		:: else ->
#ifdef COUNT_LATE
			call_unless_heard();
			count();
#else
			count();
			call_unless_heard();
#endif
			eventfd[i] -> eventfd[i] = 0;
			by_progress--;
			announced[i] = 0;
			got[i] = data[i]
		fi
	od
}

inline take(i)
{
	if
	:: queue[i] ->
		queue[i] = 0;
		if
		:: announced[i] -> announced[i] = 0; eventfd[i] = 1
		:: else
		fi
	:: else
	fi
}

proctype progress()
{
	bit wanted;

end:	do
	:: call || (watched && event) ->
		call = 0;
		if
		:: watched && event -> atomic { event = 0; armed = 1 }; take(0); take(1)
		:: else
		fi;
		wanted = by_progress > 0;
		if
		:: !wanted ->
#ifndef HEARD_STAYS
			heard = 0;
#endif
#ifndef NO_SECOND_LOOK
			wanted = by_progress > 0
#else
			skip
#endif
		:: else
		fi;
		watched = wanted;
		if
		:: wanted -> heard = 1
		:: else
		fi
	od
}

init {
	atomic {
		run message(0);
		run message(1);
		run reader(0);
		run reader(1);
		run progress()
	}
}
