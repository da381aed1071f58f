/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread sleeps on a number that another thread closes, and a third opens another file under it at once (stream/socket/fd_wait.c;
 * lie_down(), get_up(), hold_fd(), await_refuge() of stream/ready/wait.c; closing() of stream/calls/fd.c). The sleeper makes no copy
 * of its descriptor: it puts a nap where closers look, and then looks whether the table still leads to its stream. The
 * closer takes the entry out of the table, and then looks for naps: to each it gives a copy, made while the number is
 * still open, and rings. What the kernel does with a file while a call on it is under way it does with that file.
 *
 * The sleeper's store of its nap may be seen late (a store buffer); fences and atomic exchanges empty it. The closer's
 * are an exchange of the table's entry, and a fence, and are seen at once here.
 *
 * Claims: whatever the sleeper asks the kernel with a number goes to its own file (assertions); it is never left asleep
 * once data has come, by the ring or by the companion, or the other end has ended (invalid end states); each copy is
 * closed. It may be told EBADF only before it has slept. The last mutant is none: a sleeper that went on with a copy.
 */
/* MUTANT: -DNO_FENCE */
/* MUTANT: -DNO_LOOK */
/* MUTANT: -DCOPY_LATE */
/* MUTANT: -DBELL_FIRST */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DREACH_REFUGE */

#define FREE  0
#define MINE  1
#define OTHER 2
#define NOWHERE 3

byte number = MINE;    /* which file is under it */
bit table = 1;	       /* its entry leads to the stream */
bit fd_wait, fd_wait_stored;   /* as the closer sees it; in the sleeper's store buffer */
byte refuge = FREE;    /* the copy made: a file; FREE: none */
byte copies;	       /* descriptors that are open on MINE beside the number */
bit doorbell, slot, news;  /* rung; by the ring; by the companion */
bit lock, slept;

inline fence() { fd_wait_stored == 0 }

active proctype buffer()
{
end:
	do
	:: atomic { fd_wait_stored -> fd_wait = 1; fd_wait_stored = 0 }
	od
}

/* 1: goes on with the copy. */
inline get_up()
{
	if
	:: napping && refuge != FREE ->
		atomic { lock == 0 -> lock = 1 };
		fd_wait = 0; own = refuge; refuge = FREE;
		lock = 0;
		napping = 0
	:: else
	fi
}

active proctype sleeper()
{
	bit napping, woken;
	byte own = FREE, copy;

	do
	/* announced, looked once more: nothing there */
	:: slot -> break
	:: else ->
		/* lie_down() */
		get_up();
		if
		:: own == FREE && !napping ->
			napping = 1;
			fd_wait_stored = 1;
#ifndef NO_FENCE
			fence();
#endif
#ifndef NO_LOOK
			if
			:: !table -> assert(!slept); break
			:: else
			fi
#else
			skip
#endif
		:: else
		fi;
		/* poll(): the number is looked up as the call begins */
		if
		:: own == FREE -> copy = number
		:: else -> copy = own
		fi;
		/* Closed since, and not anybody's yet, is the poll's own way of not waiting. */
		if
		:: copy == FREE -> woken = 0
		:: else ->
			slept = 1;
			/* a file of another's never tells news of ours: only the bell does then */
			(doorbell || (news && copy == MINE));
			woken = news && copy == MINE;
			doorbell = 0
		fi;
		get_up();
		if
		:: woken && own == FREE ->
			/* hold_fd(): the kernel is to be asked by a number that stays */
			copy = number;
			if
			:: copy == MINE -> copies++
			:: else
			fi;
#ifdef NO_SECOND_LOOK
			own = copy
#else
			if
			:: table -> own = copy
			:: else ->
				if
				:: copy == MINE -> copies--
				:: else
				fi;
				/* await_refuge() */
				do
				:: own == FREE -> (refuge != FREE); get_up()
				:: else -> break
				od
			fi
#endif
		:: else
		fi;
		if
		:: woken ->
			assert(own == MINE); /* asked */
			break
		:: else
		fi
	od;
	/* rsk_wait_end() */
	if
	:: napping ->
		fence();
		atomic { lock == 0 -> lock = 1 };
		fd_wait = 0;
		if
		:: refuge == MINE -> copies--
		:: else
		fi;
		refuge = FREE;
		lock = 0
	:: else
	fi;
	if
	:: own == MINE -> copies--
	:: else
	fi;
#ifdef REACH_REFUGE
	assert(!(own == MINE && number != MINE && slept));
#endif
	assert(copies == 0)
}

active proctype closer()
{
	table = 0;
#ifdef COPY_LATE
	number = FREE;
#endif
	if
	:: fd_wait ->
		atomic { lock == 0 -> lock = 1 };
		if
		:: fd_wait && refuge == FREE ->
#ifdef DOORBELL_FIRST
			doorbell = 1;
#endif
			if
			:: number == MINE -> copies++; refuge = MINE
			:: else -> refuge = NOWHERE
			fi;
#ifndef DOORBELL_FIRST
			doorbell = 1
#endif
		:: else
		fi;
		lock = 0
	:: else
	fi;
	number = FREE
}

/* Another thread's file gets the number. */
active proctype opener()
{
end:
	atomic { number == FREE -> number = OTHER }
}

/* Something comes, by the one way or the other. */
active proctype peer()
{
	if
	:: slot = 1; doorbell = 1
	:: news = 1
	fi
}
