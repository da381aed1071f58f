/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay.h - the last resort when a stream leaves the ring for a reader that sees only the kernel
 * (fallback.c): a separate process between the TCP socket and a fresh connection, whose end takes
 * the descriptor's number. See docs/adr/relay.md.
 */
#ifndef RSK_RELAY_H
#define RSK_RELAY_H

#include "stream.h"

#define RSK_RELAY_BLOCK 65536u

/*
 * What the relay does before it only copies. A mapping of its own (rsk_relay_new()), which the
 * relay process is created with; the process owns a copy, the caller frees its own by
 * rsk_relay_free().
 */
struct rsk_relay {
	size_t map_bytes;
	/*
	 * To the program, in this order: @before bytes of the TCP socket, the @down_bytes ring
	 * bytes, then the rest of the TCP socket's bytes, less @skip.
	 */
	uint64_t before;
	size_t down_bytes;
	uint64_t skip; /* bytes that the peer repeats by TCP and that are among the ring bytes */
	bool fin;      /* rsk_relay_start_owed(): shut down after the repeated bytes */
	/* to the peer, before any byte of the program's; they follow the ring bytes in data */
	size_t up_bytes;
	/* set before the plan: shut both ways, so nothing that is sent from now on follows */
	bool last;
	/* the TCP socket was shut for reading here: that is not the peer's end of stream */
	bool rd_shut;
	/* after the ring bytes comes an error that the TCP socket has reported already */
	bool reset;
	/*
	 * rsk_rx_tcp_owed(): the TCP socket's end is a reset if it comes before so many bytes,
	 * whoever has read them
	 */
	uint64_t owed;
	/*
	 * Fallback race: a FALLBACK_RX crossed a FALLBACK_TX. If the peer's control word says
	 * RETRANSMIT when the first byte after the ring's comes, the peer repeats from
	 * fallback_pos.
	 * @word lies in memory that the peer writes; the rest is private.
	 */
	const struct rsk_control_word *word; /* NULL: no fallback race */
	struct rsk_key key;
	uint32_t gen;
	uint64_t fallback_pos, ring_end;
	uint8_t block[2][RSK_RELAY_BLOCK];
	uint8_t data[];
};

/* With room for @data_bytes bytes of data; NULL: no memory. Signal-safe. */
struct rsk_relay *rsk_relay_new(size_t data_bytes);
void rsk_relay_free(struct rsk_relay *r);

/*
 * rsk_relay_start - starts a process that copies between the TCP socket @tcp and @end, the relay's
 * end of a pair; both stay the caller's, the process has descriptors of its own. Returns 0 or
 * -errno. Does not block; signal-safe.
 */
int rsk_relay_start(struct rsk_relay *r, int tcp, int end);

/*
 * Starts a process only for bytes that are owed: up_bytes of @r go to @tcp, then the FIN if r->fin;
 * it reads nothing from @tcp, and its copy of @tcp is closed when all has been sent. @until: the
 * read end of a pipe; the process first waits for its end of file, and does nothing if a byte comes
 * instead; -1: none.
 */
int rsk_relay_start_owed(struct rsk_relay *r, int tcp, int until);

/*
 * The relay process's loop: returns when both directions have ended. Makes raw system calls only.
 */
void rsk_relay_run(struct rsk_relay *r, int tcp, int end);

/*
 * relay_pair.c: two connected sockets like @tcp, with FD_CLOEXEC, which the caller owns: [0] the
 * program's end, with @tcp's options, [1] the relay's. Returns 0 or -errno. Blocks for a second at
 * most; signal-safe.
 */
int rsk_relay_pair(int tcp, int fds[static 2]);

/* rx_relay.c, rx lock held: upper bound of the bytes that rsk_rx_relay_plan() will copy. */
size_t rsk_rx_relay_bytes(struct rsk_rx *rx);

/*
 * Copies to data all bytes that are here and that the TCP socket does not have; nothing is
 * consumed. Returns 0; -EAGAIN: the machine is in a state in which it cannot say what comes first.
 */
int rsk_rx_relay_plan(struct rsk_rx *rx, struct rsk_relay *r);

/* The relay has the bytes: marks all of them as consumed here. */
void rsk_rx_relay_done(struct rsk_rx *rx, struct rsk_relay *r);

/*
 * Copies whole slots from @ring's next on, up to a command or to where nothing has come, to @to
 * (NULL: only counts), at most @room bytes. Returns the number of bytes.
 */
size_t rsk_rx_relay_copy(struct rsk_rx *rx, struct rsk_ring_rx ring, uint8_t *to, size_t room);

/*
 * relay_owed.c, tx lock held. A copy of the machine writes the bytes that are still to be repeated
 * behind the ring bytes (up_bytes, at most @room); the machine itself does not change until
 * rsk_tx_relay_done(). Returns 0; -EAGAIN: cannot be told now; -ENOMEM.
 */
int rsk_tx_relay_plan(const struct rsk_tx *machine, struct rsk_relay *r, size_t room);
/* The relay has the bytes: this direction goes by TCP for good. */
void rsk_tx_relay_done(struct rsk_tx *tx);

enum rsk_deferred_posts {
	RSK_OWED_SHUT,	 /* only the FIN follows */
	RSK_OWED_CLOSED, /* this process closes the socket, others may have it */
	RSK_OWED_ENDING	 /* the same in a moment; threads that send until then send nothing */
};

/*
 * rsk_stream_give_owed - bytes are still to be repeated by TCP, which has no room for them: hands
 * them to a separate process, so that shutdown, close or exit does not wait for them. tx lock held.
 * Returns 0: nothing is owed (any more) here; -errno: it still is. @until as in
 * rsk_relay_start_owed(). Does not block.
 */
int rsk_stream_give_owed(struct rsk_stream *s, int fd, enum rsk_deferred_posts how, int until);

/* What rsk_rx_fall_back() has left in the ring, and the peer is to repeat. */
struct rsk_leaving {
	bool kernel;	 /* the caller says that the next user of the socket sees only the kernel */
	bool again;	 /* the machine has left the ring */
	uint64_t before; /* bytes that the TCP socket has before the repeated ones */
	/* of the slot that was read in part; arena memory, owned by the caller of leave() */
	uint8_t *stage;
	uint32_t partial_len;
};

/*
 * rsk_stream_relay - called when all else has failed (fallback.c): afterwards the descriptors that
 * this process has of the stream lead to a relay. In a vfork child these are the child's; the
 * parent's stay. @l as leave() filled it in. Returns 0; -errno: nothing has changed, and the
 * caller's call must fail. No lock held.
 */
int rsk_stream_relay(struct rsk_stream *s, int fd, enum rsk_reason why,
		     const struct rsk_leaving *l);

/*
 * The same where nothing is to be copied, but there is an error that the program has not been told:
 * checking the TCP socket took it from the kernel, or only the ring knew it. The descriptors then
 * lead to a connection that was reset.
 */
int rsk_stream_relay_error(struct rsk_stream *s, int fd);

#endif
