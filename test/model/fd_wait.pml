/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd_wait.pml - model, checked by run.sh, of a thread that sleeps in an fd wait on a
 * descriptor number that another thread closes, while a third opens another file with that number
 * at once (stream/socket/fd_wait.c; lie_down(), get_up(), hold_fd(), await_refuge() of
 * stream/ready/wait.c; closing() of stream/calls/fd.c). The sleeper makes no copy of its
 * descriptor: it registers its fd wait where closers look, and then checks whether the table still
 * leads to its stream. The closer takes the entry out of the table, and then looks for fd waits: to
 * each it gives a copy, made while the number is still open, and rings the doorbell. A system call
 * that is under way keeps the file that it began with.
 *
 * The sleeper's store of its fd wait may become visible late (a store buffer); fences and atomic
 * exchanges empty the buffer. The closer's stores are an exchange of the table's entry, and a
 * fence, and are visible at once here.
 *
 * Claims: whatever the sleeper asks the kernel with a number goes to its own file (assertions); it
 * is never left asleep once data has come, by the ring or by TCP, or the other end has ended
 * (invalid end states); each copy is closed. It may get EBADF only before it has slept. The last
 * mutant is not a broken protocol: it reports as an error a state that must be reachable, a sleeper
 * that went on with a copy.
 */
/* MUTANT: -DNO_FENCE */
/* MUTANT: -DNO_LOOK */
/* MUTANT: -DCOPY_LATE */
/* MUTANT: -DDOORBELL_FIRST */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DREACH_REFUGE */

#define FREE  0
#define MINE  1
#define OTHER 2
#define NOWHERE 3

byte number = MINE;    /* the file with that number */
bit table = 1;	       /* its entry leads to the stream */
bit fd_wait, fd_wait_stored;   /* as the closer sees it; in the sleeper's store buffer */
byte refuge = FREE;    /* the copy made: a file; FREE: none */
byte copies;	       /* descriptors that are open on MINE besides the number */
bit doorbell, slot, news;  /* doorbell; news by the ring; news by TCP */
bit lock, slept;

inline fence() { fd_wait_stored == 0 }

active proctype buffer()
{
end:
	do
	:: atomic { fd_wait_stored -> fd_wait = 1; fd_wait_stored = 0 }
	od
}

/* own != FREE: it goes on with the copy. */
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
	/* announced, checked once more: nothing there */
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
		/* If it was closed, and not opened again, poll does not wait (POLLNVAL). */
		if
		:: copy == FREE -> woken = 0
		:: else ->
			slept = 1;
			/*
			 * another thread's file never reports our stream's news: only the doorbell
			 * does then
			 */
			(doorbell || (news && copy == MINE));
			woken = news && copy == MINE;
			doorbell = 0
		fi;
		get_up();
		if
		:: woken && own == FREE ->
			/* hold_fd(): the kernel must be asked with a number that stays */
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

/* Something comes, by the ring or by TCP. */
active proctype peer()
{
	if
	:: slot = 1; doorbell = 1
	:: news = 1
	fi
}
