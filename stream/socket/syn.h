/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn.h - what a connection's first segment was (rsock/syn.h), as each of its ends finds it out.
 *
 * The accepting end reads the segment that the kernel has kept (TCP_SAVED_SYN). The connecting end
 * has the kernel show a segment that it sends anyway, with its headers (a time stamp of the
 * transmission, which comes with the packet), and counts back to the first one. The packet comes by
 * the socket's error queue, and is taken from it at once. A thread that polls the socket meanwhile
 * is woken by POLLERR: it waits until nobody reads a header, asks the kernel again, and sleeps on.
 *
 * Who uses the error queue holds the reading lock (rsk_syn_reading_try()), one thread of the
 * process at a time, with signals deferred, and never sleeps with it.
 */
#ifndef RSK_STREAM_SYN_H
#define RSK_STREAM_SYN_H

#include <rsock/syn.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

struct rsk_stream;

/* rsk_stream.syn.asked; of the connecting end */
enum rsk_syn_asked {
	RSK_SYN_NOT_ASKED, /* rsockd knows of no end that it may belong to */
	RSK_SYN_ASKED,	   /* one of the next sends is to show it */
	RSK_SYN_LATE	   /* a send was to show it, and the packet has not come yet */
};

/* The kernel is to keep the first segments that come to this listener. No effect if it does. */
void rsk_syn_keep(int listener);

/*
 * The accepting end: finds it out, once; later calls return the same. The connecting end: what a
 * send has found out. False: it is unknown. The pairing lock.
 */
bool rsk_syn_learn(struct rsk_stream *s, int fd, struct rsk_syn *out);

/* The reading lock, with signals deferred. Try: false: another thread has it. Once is enough. */
bool rsk_syn_reading_try(void);
void rsk_syn_reading_end(void);
void rsk_syn_forked(void); /* the child */

/*
 * A send of at most RSK_SYN_SEND_BYTES on a connecting end; never blocks. *out: the first segment,
 * n 0 if it did not show. Returns as sendmsg(2), or -RSK_EKERNEL: nothing was done, since the
 * segment would not leave at once. *late: the packet has not come yet. The reading lock.
 */
#define RSK_SYN_SEND_BYTES 8192u
ssize_t rsk_syn_send(struct rsk_stream *s, int fd, const struct iovec *iov, int n, int flags,
		     struct rsk_syn *out, bool *late);

/*
 * Takes from the error queue what came late, or again: the kernel shows a segment as often as it
 * sends it. For a stream of which a segment was to be shown. The reading lock; the second is for a
 * thread that polls, and waits for the lock.
 */
void rsk_syn_take_late(struct rsk_stream *s, int fd);
void rsk_syn_take_shown(struct rsk_stream *s, int fd);

/* Whether the shortest round trip of the connection was no longer than that. */
bool rsk_syn_is_near(int fd, uint32_t most_us);

/*
 * A segment of a stream of this process was to be shown; never cleared. Set before that; relaxed,
 * since the kernel's events that it is about are passed on by the kernel.
 */
extern _Atomic(bool) rsk_syn_some_shown;

/* Packets that have been taken from error queues. Counted with the reading lock; relaxed. */
extern _Atomic(uint32_t) rsk_syn_taken;

#endif
