/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay.h - the last resort when a stream leaves the ring for a reader that sees the kernel alone
 * (leave.c): a process of its own between the TCP socket and a fresh connection, whose end takes
 * the descriptor's number. See docs/adr/relay.md.
 */
#ifndef RSK_RELAY_H
#define RSK_RELAY_H

#include "stream.h"

#define RSK_RELAY_BLOCK 65536u

/*
 * What the relay does before it only copies. A mapping of its own (rsk_relay_new()), which the
 * process is made with; it owns a copy, the caller frees its own by rsk_relay_free().
 */
struct rsk_relay {
	size_t map_bytes;
	/*
	 * To the program, in this order: so many bytes of the TCP socket, ring bytes, then the TCP
	 * socket's less skip.
	 */
	uint64_t before;
	size_t down_bytes;
	uint64_t skip; /* that the peer repeats by TCP, and that are among the ring bytes */
	bool fin;      /* rsk_relay_start_owed(): behind what is to be repeated */
	size_t up_bytes; /* to the peer, before anything of the program's; behind the ring bytes in data */
	bool last; /* set before the plan: shut both ways, so nothing that is sent from now on follows */
	bool rd_shut; /* the TCP socket was shut for reading here: that is not the peer's end */
	bool reset; /* behind the ring bytes comes an error that the TCP socket has told already */
	/*
	 * A LEAVE met a MOVE: if the peer's word says AGAIN when the first byte behind the ring's
	 * comes, then it repeats from fallback_pos. @word lies in memory that the peer writes; the
	 * rest is private.
	 */
	const struct rsk_control_word *word; /* NULL: no doubt */
	struct rsk_key key;
	uint32_t gen;
	uint64_t fallback_pos, ring_end;
	uint8_t block[2][RSK_RELAY_BLOCK];
	uint8_t data[];
};

/* With room for so many bytes of data; NULL: no memory. Signal-safe. */
struct rsk_relay *rsk_relay_new(size_t data_bytes);
void rsk_relay_free(struct rsk_relay *r);

/*
 * rsk_relay_start - a process that copies between the TCP socket @tcp and @end, the relay's end of
 * a pair; both stay the caller's, the process has descriptors of its own. 0 or -errno. Does not
 * block; signal-safe.
 */
int rsk_relay_start(struct rsk_relay *r, int tcp, int end);

/*
 * A process for bytes that are owed alone: up_bytes of @r go to @tcp, then the FIN if r->fin; it
 * takes nothing from there, and its copy of @tcp is closed when all has been sent. @until: the end
 * of a pipe that it waits for the end of first, and does nothing where a byte comes; -1: none.
 */
int rsk_relay_start_owed(struct rsk_relay *r, int tcp, int until);

/* The relay process's loop: returns when both ways have ended. Makes raw system calls only. */
void rsk_relay_run(struct rsk_relay *r, int tcp, int end);

/*
 * relay_pair.c: two connected sockets like @tcp, with FD_CLOEXEC, which the caller owns: [0] the
 * program's end, with
 * @tcp's options, [1] the relay's. 0 or -errno. Blocks for a second at the most; signal-safe.
 */
int rsk_relay_pair(int tcp, int fds[static 2]);

/* rx_relay.c, rx lock held: bytes that rsk_rx_relay_plan() will copy, at the most. */
size_t rsk_rx_relay_bytes(struct rsk_rx *rx);

/*
 * Copies all that is to be had here and not from the TCP socket to data; nothing is consumed. 0;
 * -EAGAIN: the machine is in between, and cannot say what comes first. *left: what rsk_rx_fall_back()
 * could not give back, when it has left.
 */
int rsk_rx_relay_plan(struct rsk_rx *rx, struct rsk_relay *r);

/* The relay has it: nothing is to be had here any more. */
void rsk_rx_relay_done(struct rsk_rx *rx, struct rsk_relay *r);

/*
 * Whole slots from @ring's next on to a command or to where nothing has come, to @to (NULL: only
 * counted), of @room.
 */
size_t rsk_rx_relay_copy(struct rsk_rx *rx, struct rsk_ring_rx ring, uint8_t *to, size_t room);

/*
 * relay_owed.c, tx lock held. What is still to be repeated, up_bytes of @room, written down behind the ring bytes by a
 * copy of the machine, which stays as it is until rsk_tx_relay_done(). 0; -EAGAIN: cannot be told now; -ENOMEM.
 */
int rsk_tx_relay_plan(const struct rsk_tx *machine, struct rsk_relay *r, size_t room);
/* The relay has it: this direction is by TCP, for good. */
void rsk_tx_relay_done(struct rsk_tx *tx);

enum rsk_deferred_posts {
	RSK_OWED_SHUT,	 /* nothing follows but the FIN */
	RSK_OWED_CLOSED, /* this process lets go of the socket, others may have it */
	RSK_OWED_ENDING	 /* the same in a moment; threads that send until then send nothing */
};

/*
 * rsk_stream_give_owed - bytes that are still to be repeated by TCP, which has no room for them,
 * are a process's of its own: whoever shuts, closes or ends does not wait for them. tx lock held.
 * 0: nothing is owed (any more); -errno: it is. @until as below. Does not block.
 */
int rsk_stream_give_owed(struct rsk_stream *s, int fd, enum rsk_deferred_posts how, int until);

/* What rsk_rx_fall_back() has left in the ring, and the peer is to repeat. */
struct rsk_leaving {
	bool kernel;	 /* asked for: who uses it next sees the kernel alone */
	bool again;	 /* the machine has left */
	uint64_t before; /* bytes that the TCP socket has before the repeated ones */
	uint8_t *stage;	 /* of the slot that was read in part; arena memory, owned by who leaves */
	uint32_t partial_len;
};

/*
 * rsk_stream_relay - all else was tried (leave.c): the numbers that this process has of the stream
 * lead to a relay afterwards. In a vfork child they are the child's; the parent's stay. @l as
 * leave() filled it in. 0; -errno: nothing has changed, and the caller's call has to fail. No lock
 * held.
 */
int rsk_stream_relay(struct rsk_stream *s, int fd, enum rsk_reason why,
		     const struct rsk_leaving *l);

/*
 * The same where nothing is to be copied, but an error that nobody has been told of: looking at the TCP socket took it
 * from the kernel, or only the ring knew. They lead to a connection that was reset.
 */
int rsk_stream_relay_error(struct rsk_stream *s, int fd);

#endif
