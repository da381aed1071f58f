/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * promotion.pml - model, checked by run.sh, of a direction that changes its path without ever
 * waiting (stream/ring/tx.c, stream/ring/rx.c). TCP and the ring are independent FIFOs. Each end
 * has one control word, which is overwritten, so that older values may never be seen. The sender
 * proposes; the receiver says that it watches; the sender announces position N and goes on in the
 * ring. Later it leaves the ring with the slot FALLBACK_TX, sends by TCP, and may
 * propose again once every slot is known to be taken. The receiver may read past N, because N was
 * announced and the ring left again while it was inside a read: the bytes beyond N are kept in the
 * overread buffer until the FALLBACK_TX. Bytes are numbered.
 *
 * Claims: what is delivered is 0, 1, 2, ... (assertions); no process is left waiting (invalid end
 * states); everything is delivered (delivered). Without the rule "propose only when credit ==
 * next", without the overread buffer, or without the check of the word after each read, they fail.
 */
/* CC: -DNFAIR=3 */
/* PAN: -f */
/* MUTANT: -DNO_CREDIT_RULE */
/* MUTANT: -DNO_HOLD */
/* MUTANT: -DNO_LOOK_BEHIND_READ */

#define BYTES 5
#define GENS  3
#define CELLS 3 /* slots the ring takes, less one for a command */
#define FALLBACK_TX  99

/*
 * Sender's control word and receiver's control word; written and read whole, since a torn one fails
 * its hash.
 */
mtype = { none, propose, ring_from, watching };
mtype tx_what = none;
byte tx_gen, tx_pos, tx_slot;
mtype rx_what = none;
byte rx_gen, rx_credit;

chan tcp = [BYTES] of { byte };
chan ring = [4] of { byte };

/* states */
#define TCP	  0
#define PROPOSED  1
#define ONRING	  2
#define WATCH	  1
#define DRAIN_TCP 3

byte delivered;

active proctype sender()
{
	byte state = TCP, gen, sent, next, credit;

	do
	:: atomic { state != ONRING && sent < BYTES -> tcp!sent; sent++ }
	:: atomic { state == ONRING && sent < BYTES && next - credit < CELLS ->
		ring!sent; sent++; next++ }
	:: atomic {
#ifdef NO_CREDIT_RULE
		state == TCP && gen < GENS && nfull(ring) ->
#else
		state == TCP && gen < GENS && credit == next ->
#endif
		gen++; state = PROPOSED; tx_what = propose; tx_gen = gen; tx_pos = 0; tx_slot = 0
	   }
	:: atomic { /* serve: what the receiver said */
		credit != rx_credit ||
			(state == PROPOSED && rx_what == watching && rx_gen == gen) ->
		credit = rx_credit;
		if
		:: state == PROPOSED && rx_what == watching && rx_gen == gen ->
			state = ONRING; tx_what = ring_from; tx_pos = sent; tx_slot = next
		:: else
		fi
	   }
	:: atomic { state == ONRING -> ring!FALLBACK_TX + sent; next++; state = TCP }
	:: atomic { state == PROPOSED -> state = TCP; tx_what = none } /* withdrawn */
	:: atomic { sent == BYTES && state != PROPOSED -> break }
	od
}

/* rsk_rx: see_word() */
inline take_word()
{
	if
	:: tx_what == propose && tx_gen > proposed -> proposed = tx_gen
	:: tx_what == ring_from && state == WATCH && tx_gen == gen ->
		assert(tx_slot == next);
		switch_pos = tx_pos;
		state = DRAIN_TCP
	:: else
	fi
}

inline answer()
{
	if
	:: proposed > gen && len(overread) == 0 && (state == TCP || state == WATCH) ->
		gen = proposed; state = WATCH; rx_what = watching; rx_gen = gen
	:: else
	fi
}

inline deliver(byte_)
{
	assert(byte_ == delivered);
	delivered++
}

active proctype receiver()
{
	byte state = TCP, gen, proposed, next, switch_pos, pos, n, b;
	chan got = [BYTES] of { byte };
	chan overread = [BYTES] of { byte };

	do
	:: delivered == BYTES -> break
	:: atomic { /* a call: serve, then ... */
		delivered < BYTES &&
		(len(tcp) > 0 || len(overread) > 0 || (tx_gen > proposed && tx_what == propose) ||
		 (state == WATCH && tx_what == ring_from && tx_gen == gen) ||
		 (state == ONRING && len(ring) > 0)) ->
		take_word();
		assert(state != DRAIN_TCP || pos <= switch_pos);
		answer();
		if
		:: state == DRAIN_TCP && pos == switch_pos -> state = ONRING
		:: else
		fi
	   };
	   /* ... here the sender may do anything ... */
	   if
	   :: atomic { state == ONRING && len(ring) > 0 ->
		ring?b; next++;
		if
		:: b < FALLBACK_TX -> deliver(b); pos++
		:: else -> assert(b - FALLBACK_TX == pos); state = TCP; rx_credit = next
		fi;
		if
		:: rx_credit = next
		:: true /* credit is given in batches */
		fi
	      }
	   :: atomic { state == ONRING && len(ring) == 0 -> rx_credit = next }
	   :: atomic { state != ONRING && len(overread) > 0 -> overread?b; deliver(b); pos++ }
	   :: atomic { state != ONRING && len(overread) == 0 && len(tcp) == 0 -> skip }
	   :: atomic { state != ONRING && len(overread) == 0 && len(tcp) > 0 ->
		/* one read: as much as there is, or less; never past a known N */
		n = 0;
		do
		:: len(tcp) > 0 && (state != DRAIN_TCP || pos < switch_pos) ->
			tcp?b; got!b; n++; pos++
		:: n > 0 -> break
		od
	      };
	      /* ... and here: between the read and the check after it ... */
	      atomic {
#ifndef NO_LOOK_BEHIND_READ
		if
		:: state == WATCH -> take_word()
		:: else
		fi;
#endif
		if
#ifndef NO_HOLD
		:: state == DRAIN_TCP && pos > switch_pos ->
			assert(pos - switch_pos <= n);
			do
			:: pos - switch_pos < n -> got?b; deliver(b); n--
			:: else -> break
			od;
			do
			:: n > 0 -> got?b; overread!b; n--
			:: else -> break
			od;
			pos = switch_pos
#endif
		:: else ->
			do
			:: n > 0 -> got?b; deliver(b); n--
			:: else -> break
			od
		fi;
		n = 0;
		b = 0;
		if
		:: state == DRAIN_TCP && pos == switch_pos -> state = ONRING
		:: else
		fi
	      }
	   fi
	od
}

ltl all_delivered { <> (delivered == BYTES) }
