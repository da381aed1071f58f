/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn.h - what a connection's first segment was (rsock/syn.h), as each of its ends finds it out.
 *
 * The accepting end reads the segment that the kernel has kept (TCP_SAVED_SYN). The connecting end
 * has the kernel show a segment that it sends anyway, with its headers (a time stamp of the
 * transmission, which comes with the packet), and counts back to the first one. The packet comes by
 * the socket's error queue, and is taken from it at once; a thread that polls the socket in between
 * would see POLLERR. So no thread polls it then: whoever waits counts itself, and whoever reads a
 * header finds nobody that waits, and holds back those that come.
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
	RSK_SYN_BUSY,	   /* a thread is doing that */
	RSK_SYN_LATE	   /* a send was to show it, and the packet has not come yet */
};

/* The kernel is to keep the first segments that come to this listener. No effect if it does. */
void rsk_syn_keep(int listener);

/*
 * The accepting end: finds it out, once; later calls return the same. The connecting end: what a
 * send has found out. False: it is unknown. The pairing lock.
 */
bool rsk_syn_learn(struct rsk_stream *s, int fd, struct rsk_syn *out);

/* Whether a thread waits for the stream in the kernel: no header is read then. */
bool rsk_syn_waited(struct rsk_stream *s);

/*
 * A send of at most RSK_SYN_SEND_BYTES on a connecting end; never blocks. *out: the first segment,
 * n 0 if it did not show. Returns as sendmsg(2), or -RSK_EKERNEL: nothing was done, since a thread
 * waits, or the segment would not leave at once. *late: the packet has not come yet.
 */
#define RSK_SYN_SEND_BYTES 8192u
ssize_t rsk_syn_send(struct rsk_stream *s, int fd, const struct iovec *iov, int n, int flags,
		     struct rsk_syn *out, bool *late);

/*
 * Takes from the error queue what came late, or again: the kernel shows a segment as often as it
 * sends it. True: there was something. For a stream of which a segment was to be shown.
 */
bool rsk_syn_take_late(int fd);

/* Whether the shortest round trip of the connection was no longer than that. */
bool rsk_syn_is_near(int fd, uint32_t most_us);

/*
 * A segment of a stream of this process was to be shown; never cleared. Set before that; relaxed,
 * since the kernel's events that it is about are passed on by the kernel.
 */
extern _Atomic(bool) rsk_syn_some_shown;

/*
 * Headers that are being read in this process. Written by rsk_syn_send(), read by threads that are
 * about to wait; seq_cst, and so are the counts of waiting threads: one of the two sees the other.
 */
extern _Atomic(uint32_t) rsk_syn_reads;
void rsk_syn_hold_back(_Atomic(uint32_t) *waiting, uint32_t one);
void rsk_syn_forked(void); /* the child */

/*
 * Before a wait in the kernel that would see an error queue; behind it the caller subtracts @one.
 * @waiting: the count of the stream or the set.
 */
static inline void rsk_syn_wait_begin(_Atomic(uint32_t) *waiting, uint32_t one)
{
	atomic_fetch_add(waiting, one);
	if (__builtin_expect(atomic_load(&rsk_syn_reads) != 0, 0))
		rsk_syn_hold_back(waiting, one);
}

#endif
