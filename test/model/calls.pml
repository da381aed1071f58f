/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.pml - model, checked by run.sh, of news of a stream for an epoll set whose lock is not held
 * (stream/epoll/epoll.c rsk_reg_call(), rsk_epoll_take_called(); stream/epoll/epoll_wait.c). A
 * thread that drains a ready map calls the registration, under the chain lock: it marks it called;
 * if it was not marked, pushes it on the set's list; then checks for sleepers and notifies them. A
 * waiting thread takes the list and the marks, checks the rings of what it took, counts itself as a
 * sleeper, takes the list once more, and sleeps on its doorbell.
 *
 * All of these words are changed by sequentially consistent operations, so there are no store
 * buffers here. CALLERS processes drain, each with one piece of news of the same stream; one thread
 * waits.
 *
 * Claims: no thread is left asleep (invalid end state), and all news is told (all_told).
 */
/* PAN: -f */
/* MUTANT: -DNO_SECOND_TAKE */
/* MUTANT: -DSLEEPERS_FIRST */
/* MUTANT: -DCLEAR_LATE */

#define CALLERS 3

byte news;   /* what is in the stream's ring */
byte told;   /* of that, what the waiter was told */
bit chain;   /* the chain lock */
bit called;  /* the registration's mark */
bit pushed;  /* it is on the set's list of calls */
bit sleepers;
bit doorbell;

active [CALLERS] proctype caller()
{
	bit was, asleep;

	news++; /* the mark in the ready map comes after it: the caller has seen both */
	atomic { !chain -> chain = 1 }
#ifdef SLEEPERS_FIRST
	asleep = sleepers;
#endif
	atomic { was = called; called = 1 }
	if
	:: !was -> pushed = 1
	:: else
	fi;
#ifndef SLEEPERS_FIRST
	asleep = sleepers;
#endif
	if
	:: asleep -> doorbell = 1
	:: else
	fi;
	chain = 0
}

active proctype waiter()
{
	bit queued;

	do
	:: told == CALLERS -> break
	:: else ->
		atomic { queued = pushed; pushed = 0 }
#ifndef CLEAR_LATE
		if
		:: queued -> called = 0
		:: else
		fi;
#endif
		if
		:: queued -> told = news
#ifdef CLEAR_LATE
			called = 0
#endif
		:: else ->
			sleepers = 1;
#ifndef NO_SECOND_TAKE
			if
			:: pushed -> goto awake
			:: else
			fi;
#endif
			atomic { doorbell -> doorbell = 0 }
awake:			sleepers = 0
		fi
	od
}

ltl all_told { <> (told == CALLERS) }
