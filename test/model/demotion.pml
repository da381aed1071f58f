/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * demotion.pml - model, checked by run.sh, of a direction that falls back from both ends at once
 * (command() of stream/ring/tx.c, rsk_tx_on_fallback_rx(), rsk_rx_fall_back() of stream/ring/rx.c).
 * The sender may put the slot FALLBACK_TX(N) and go on by TCP without asking. The receiver may send
 * FALLBACK_RX(C) (FALLBACK_RX) with slots unread; then the sender repeats the bytes from C on by
 * TCP, before anything newer. The two are like the two flags of Dekker's algorithm: the sender puts
 * its command, executes a fence, checks for a FALLBACK_RX, and only then sends anything newer; the
 * receiver sends FALLBACK_RX, executes a fence, and checks for a command behind the unread data. So
 * if the sender missed the FALLBACK_RX, the receiver sees the command: it stays on the ring, and
 * reads it to its end. If each sees the other's, the sender repeats, and says so in its control
 * word RETRANSMIT before the first byte, so that the receiver, which stayed, drops what it has read
 * already.
 *
 * Stores to shared memory (slots and control word of the sender in one queue, control word of the
 * receiver) become visible when their store buffers drain. A send or receive on the socket is a
 * system call that takes locks, and drains the caller's own buffer. The ring outlives its writer
 * (shm); the sender may die at any point, and what its processor had in its buffer still becomes
 * visible.
 *
 * Claims: bytes arrive as 0, 1, 2, ...: none lost, duplicated or reordered (assertions); if the
 * sender lives everything arrives, and no process is left waiting (all_or_dead, invalid end
 * states).
 */
/* CC: -DNFAIR=3 */
/* PAN: -f */
/* MUTANT: -DNO_SENDER_FENCE */
/* MUTANT: -DNO_RECEIVER_FENCE */
/* MUTANT: -DNO_SECOND_LOOK */
/* MUTANT: -DNO_AGAIN */
/* MUTANT: -DAGAIN_AFTER_REPEAT */

#define BYTES 4
#define FALLBACK_TX  99
#define NONE  77

/*
 * ring and the sender's control word: stores 0 .. stored-1 are issued, 0 .. visible-1 can be seen
 */
byte store[BYTES + 3]; /* what each store is: a byte, FALLBACK_TX, or RETRANSMIT */
#define RETRANSMIT 98
byte stored, visible;
byte again_from = NONE; /* C as repeated in the control word RETRANSMIT */

/* receiver's control word */
byte leave_stored = NONE, leave_visible = NONE;

chan tcp = [BYTES + BYTES] of { byte };
bit dead;	/* the sender */
bit eof;	/* the kernel showed its end */
byte accepted;	/* bytes that the sender's calls have taken */
byte delivered;

active proctype store_buffers()
{
end:
	do
	:: atomic { visible < stored -> visible++ }
	:: atomic { leave_visible != leave_stored -> leave_visible = leave_stored }
	od
}

/* ---- the sender: on the ring from byte 0 on ---- */
#define ONRING 0
#define TCP    1

active proctype sender()
{
	byte state = ONRING, pos, sent_tcp, from;
	bit peer_fell_back, looked;

	{
	do
	/* Each call checks for a FALLBACK_RX before it sends. */
	:: atomic { !looked ->
		looked = 1;
		if
		:: leave_visible != NONE && !peer_fell_back ->
			peer_fell_back = 1;
			/*
			 * newer bytes went by TCP already: the receiver has seen our FALLBACK_TX
			 * and stays
			 */
			if
			:: state == ONRING || sent_tcp == 0 -> from = leave_visible
			:: else -> from = NONE
			fi
		:: else -> from = NONE
		fi
	   };
	   if
	   :: from != NONE && from < pos ->
#if !defined(NO_AGAIN) && !defined(AGAIN_AFTER_REPEAT)
		atomic { again_from = from; store[stored] = RETRANSMIT; stored++ };
#endif
		do
		:: atomic { from < pos && visible == stored -> tcp!from; from++ }
		:: from == pos -> break
		od;
#ifdef AGAIN_AFTER_REPEAT
		atomic { again_from = leave_visible; store[stored] = RETRANSMIT; stored++ };
#endif
		atomic { state = TCP; from = NONE }
	   :: from != NONE && from == pos -> atomic { state = TCP; from = NONE }
	   :: else
	   fi
	:: atomic { looked && state == ONRING && pos < BYTES ->
		store[stored] = pos; stored++; pos++; accepted++; looked = 0 }
	:: atomic { looked && state == ONRING && pos > 0 ->
		store[stored] = FALLBACK_TX; stored++; state = TCP };
		/* command(): the fence, then the next call's check */
#ifndef NO_SENDER_FENCE
		visible == stored;
#endif
		looked = 0
	:: atomic { looked && state == TCP && pos + sent_tcp < BYTES ->
		tcp!(pos + sent_tcp); sent_tcp++; accepted++; looked = 0 };
#ifndef NO_SENDER_FENCE
		/* the system call; without the fence the model assumes that it drained nothing */
		visible == stored
#endif
	/* Any call may also have nothing to do; a FALLBACK_RX wakes a sleeping one. */
	:: atomic { looked && leave_visible != NONE && !peer_fell_back -> looked = 0 }
	:: atomic { pos + sent_tcp == BYTES && looked && peer_fell_back -> break }
	:: atomic { pos + sent_tcp == BYTES && looked && delivered == BYTES -> break }
	od
	} unless { dead }
}

/* Death of the sender, at any point or never; the kernel then shows the end of the connection. */
active proctype death()
{
	if
	:: atomic { dead = 1; eof = 1 }
	:: skip
	fi
}

/* ---- the receiver ---- */
byte taken; /* stores of the ring that were checked */

/* Skips control words at the head of the store queue: they are not in the ring. */
inline skip_word()
{
	do
	:: taken < visible && store[taken] == RETRANSMIT -> taken++
	:: else -> break
	od
}

inline look_at_ring()
{
	d_step {
		i = taken; data = 0; moved = 0; again = 0;
		do
		:: i < visible ->
			if
			:: store[i] == RETRANSMIT -> again = 1
			:: store[i] == FALLBACK_TX -> moved = data
			:: else -> data = 1
			fi;
			i++
		:: else -> break
		od;
		i = 0; data = 0
	}
}

inline deliver(byte_)
{
	assert(byte_ == delivered);
	delivered++
}

active proctype receiver()
{
	byte state = ONRING, i, b, from, skipped;
	bit left, tried, doubt, applied, data, moved, again;

	do
	:: delivered == BYTES -> break
	:: atomic { state == ONRING && taken < visible ->
		skip_word();
		if
		:: taken < visible ->
			b = store[taken];
			taken++;
			if
			:: b == FALLBACK_TX -> state = TCP
			:: else -> deliver(b)
			fi
		:: else
		fi;
		/* Credit overwrites a FALLBACK_RX that was taken back, at some time. */
		if
		:: doubt -> leave_stored = NONE; leave_visible = NONE
		:: true
		fi
	   }
	:: atomic { state == TCP && doubt && len(tcp) > 0 ->
		/* A byte has arrived: everything that was stored before it is visible. */
		i = 0;
		do
		:: i < visible ->
			if
			:: store[i] == RETRANSMIT -> applied = 1
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		skipped = (applied -> delivered - from : 0);
		doubt = 0
	   }
	:: atomic { state == TCP && !doubt && len(tcp) > 0 ->
		tcp?b;
		if
		:: skipped > 0 -> skipped--
		:: else -> deliver(b)
		fi
	   }
	:: atomic { !tried && state == ONRING -> tried = 1; look_at_ring() };
		if
		:: moved -> skip /* busy: the ring has to be read here */
		:: else ->
			atomic { from = delivered; leave_stored = from };
#ifndef NO_RECEIVER_FENCE
			leave_visible == leave_stored;
#endif
			atomic {
#ifndef NO_SECOND_LOOK
				look_at_ring();
				if
				:: moved && !again -> doubt = 1
				:: else -> state = TCP; left = 1
				fi
#else
				state = TCP; left = 1
#endif
			}
		fi
	:: atomic { eof && len(tcp) == 0 &&
		(state == TCP || (taken == stored && visible == stored)) ->
		/*
		 * Bytes may be missing only where the receiver left early, and the sender died
		 * before it checked.
		 */
		assert(left || delivered == accepted);
		break
	   }
	od
}

ltl all_or_dead { <> (delivered == BYTES || dead) }
