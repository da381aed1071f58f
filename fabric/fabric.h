/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabric.h - the interface of a fabric: one-sided access to memory between two processes.
 * Implemented by shm.c (one host), verbs/ (RDMA between hosts), rails.c (several rails) and chaos.c
 * (tests); called by stream/.
 *
 * A link has a segment at each end: memory that the peer puts into and this process polls. What
 * this process will put is composed in its *window*, an image of the peer's segment with the same
 * offsets; put() makes a range of the window appear there. In shm the window is the peer's segment
 * itself and a put costs nothing; in verbs it is a registered mirror and a put is an RDMA WRITE.
 * Puts are asynchronous; they may land late, in any order and in pieces, so a reader relies on a
 * hash and not on an order.
 */
#ifndef RSK_FABRIC_H
#define RSK_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Properties of a fabric. */
/* A put lands, or the rail breaks. Without it puts have to be repeated (tick). */
#define RSK_FABRIC_RELIABLE (1u << 0)
/* A put that returned is seen even if this process dies now. */
#define RSK_FABRIC_DURABLE (1u << 1)
/* A put has landed when it returns. */
#define RSK_FABRIC_SYNC (1u << 2)

/*
 * A put did nothing, and the rail is unchanged: the rail belongs to the process from which this one
 * was forked.
 */
#define RSK_RAIL_MUTE (-ENOTCONN)

struct rsk_rail;

struct rsk_completion {
	uint64_t token;
	int status; /* 0 or -errno */
};

/* The load of a rail. */
struct rsk_flow {
	/* Bytes of slots that were put and are not known to have arrived. */
	uint64_t under_way_bytes;
	/* Bytes per unit of the fabric's own clock while it was busy; 0: not known. */
	uint64_t rate;
	/* In: it is the only rail that is up, and nothing has to be measured. */
	bool alone;
	/* The rail cannot reach the peer's ring (yet). */
	bool shut;
	/*
	 * What is put for this stream arrives in a buffer, from which the peer's processor moves it
	 * to the ring, later.
	 */
	bool indirect;
	/* What was put for this stream is queued unsent: prefer a rail that makes progress. */
	bool held;
};

struct rsk_fabric_ops {
	const char *name;
	uint32_t caps;

	/*
	 * put - starts to make window[off, off+len) visible in the peer's segment. Does not block.
	 * The range may be composed again only when the peer has said that it has consumed it.
	 * NULL: the window is the peer's memory, and there is nothing to do. Returns 0; 1: the
	 * write is pending, and goes with the next due() on the rail; RSK_RAIL_MUTE; other -errno:
	 * the rail is broken.
	 */
	int (*put)(struct rsk_rail *rail, uint64_t off, size_t len);

	/*
	 * get - starts to fetch @len bytes at @off of the peer's segment into @dst (registered if
	 * the fabric needs that). Returns 1: done at once; 0: poll() will return a completion with
	 * @token; -errno. The copy may be torn: check the hash. A completion with -EIO while the
	 * rail is up: no answer came, several times, and @dst is unchanged.
	 */
	int (*get)(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);

	/*
	 * poll - takes up to @max completions. Returns their number or -errno (the rail is broken).
	 */
	int (*poll)(struct rsk_rail *rail, struct rsk_completion *done, int max);

	/*
	 * due - something was put for stream @sid: which doorbells have to be notified, because
	 * their owners announced a sleep for @what (RSK_WAKE_*)? Returns one bit per doorbell
	 * index, and withdraws the announcements, so the caller that gets the bits has to call
	 * ring(). Called after put(), and orders it before what the caller checks next (full
	 * fence). Never blocks; cheap when nothing sleeps. A fabric that keeps pending writes posts
	 * all of them here, of all streams, in a way that wakes the sleepers of the other end; it
	 * does nothing else, and returns 0.
	 */
	uint64_t (*due)(struct rsk_rail *rail, uint32_t sid, uint32_t what);

	/*
	 * arrived - is everything that was put for the stream whose ring or control block is at
	 * @off of the window in the peer's memory, so that the peer has it even if the rail breaks
	 * now? False: not yet, and this end's sleepers of RSK_WAKE_TX are woken when it is. NULL:
	 * only the caps are known. Never blocks.
	 */
	bool (*arrived)(struct rsk_rail *rail, uint64_t off);

	/*
	 * flow - the load of the rail, for a caller that chooses among several (rails.h), for the
	 * stream whose ring is at @off of the window. NULL: the rail is never one of several.
	 */
	void (*flow)(struct rsk_rail *rail, uint64_t off, struct rsk_flow *flow);

	/*
	 * again - the peer is missing [off, off+len) of a ring, a slot of this end, and asks for
	 * what rail @lost of several had carried. Puts it again if that rail had carried it.
	 * Returns as put(); also 0 if another rail carried it and still does. RSK_RAILS_ASKED as
	 * @lost: it has arrived, and the peer cannot use it. Puts it again whichever rail had
	 * carried it; -EAGAIN: not now; -EOPNOTSUPP: not by the rails that there are (rails.h).
	 * NULL: there is never more than one rail.
	 */
	int (*again)(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost);

	/*
	 * several - do puts go by more than one rail at the moment, so that they land in any order?
	 * One load. NULL: there is never more than one.
	 */
	bool (*several)(const struct rsk_rail *rail);

	/* ring - notifies those doorbells. A system call, so no lock should be held. */
	void (*notify)(struct rsk_rail *rail, uint64_t doorbells);

	/*
	 * announce - asks for the doorbell of index @doorbell to be notified at the next put of
	 * kind
	 * @what for @sid. The notification itself withdraws it, or retract(). The caller's order:
	 * announce, full fence, check again, sleep.
	 */
	void (*announce)(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell);
	void (*retract)(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell);
};

#define RSK_WAKE_RX 1u /* data or a command for the receiver */
#define RSK_WAKE_TX 2u /* credit or an answer for the sender */

/*
 * One path of a link. Owned by its link; immutable after set-up except @broken, which is set by
 * whatever finds the rail broken (relaxed: a hint that stops new puts; what was lost is found by
 * positions and hashes).
 */
struct rsk_rail {
	const struct rsk_fabric_ops *ops;
	uint8_t *window; /* image of the peer's segment */
	uint64_t window_bytes;
	uint8_t *segment; /* own segment, into which the peer puts */
	uint64_t segment_bytes;
	void *priv;	     /* private data of the fabric */
	_Atomic(int) broken; /* 0 or -errno */
};

static inline int rsk_rail_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	if (!rail->ops->put) {
		atomic_thread_fence(memory_order_release);
		return 0;
	}
	return rail->ops->put(rail, off, len); /* 1: the write is pending */
}

#endif
