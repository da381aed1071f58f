/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * apart.pml - model, checked by run.sh, of how the waits of one process move from an epoll set that
 * another process holds, too, to the private set (stream/epoll/epoll_apart.c). A sleeper that
 * finds the set standing apart sleeps on the private set. Otherwise it counts itself, then checks
 * once more; if it stands apart now, it takes itself off the count, and sleeps on the private set.
 * The thread that lets the set stand apart sets the flag, then reads the count; if there are
 * sleepers, it puts the kick, which is level-triggered, into the set, and reads the count once
 * more. The last sleeper to leave the set removes the kick.
 *
 * All of these words are changed by sequentially consistent operations, so there are no store
 * buffers here. SLEEPERS threads sleep, and each needs one piece of news, which comes to the
 * private set alone, after the set stands apart; another process waits on the set, too.
 *
 * Claims: no thread is left asleep (invalid end state), and the kick is gone at the end (ended).
 */
/* PAN: -f */
/* MUTANT: -DCOUNT_ALONE */
/* MUTANT: -DREAD_FIRST */
/* MUTANT: -DNO_SECOND_READ */
/* MUTANT: -DEDGE */

#define SLEEPERS 2

bit apart;
byte on_set;
bit kick;  /* stored: e->kick */
bit in_set; /* the eventfd is in the kernel's set, readable */
bit lock;
byte news; /* doorbells in the private set */
byte done;

inline unkick()
{
	if
	:: kick && on_set == 0 -> in_set = 0; kick = 0
	:: else
	fi
}

inline leaves()
{
	atomic { on_set--; was_last = (on_set == 0) }
	if
	:: was_last && kick ->
		atomic { !lock -> lock = 1 }
		unkick();
		lock = 0
	:: else
	fi
}

active [SLEEPERS] proctype sleeper()
{
	bit at_private, was_last, told;

	do
	:: told -> break
	:: else ->
		at_private = apart;
		if
		:: at_private
		:: else ->
			on_set++;
#ifndef COUNT_ALONE
			at_private = apart;
#endif
			if
			:: at_private -> leaves()
			:: else
			fi
		fi;
		if
		:: at_private ->
			/* It shows the set, too: for nothing, while the kick is there. */
			if
			:: atomic { news > 0 -> news-- } told = 1
			:: in_set
			fi
		:: else ->
#ifdef EDGE
			atomic { in_set -> in_set = 0 }
#else
			in_set
#endif
			leaves()
		fi
	od;
	done++
}

active proctype maker()
{
	bit any;

	atomic { !lock -> lock = 1 }
#ifdef READ_FIRST
	any = (on_set > 0);
	apart = 1;
#else
	apart = 1;
	any = (on_set > 0);
#endif
	if
	:: any ->
		kick = 1;
		in_set = 1;
#ifndef NO_SECOND_READ
		unkick()
#endif
	:: else
	fi;
	lock = 0;
	news = SLEEPERS
}

/* Another process; it finds nothing of its own, and sleeps on. */
active proctype other()
{
end:	do
#ifdef EDGE
	:: atomic { in_set -> in_set = 0 }
#else
	:: in_set
#endif
	od
}

ltl ended { <> [] (done == SLEEPERS && !kick && !in_set) }
