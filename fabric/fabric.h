/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabric.h - one-sided memory between two processes, as every fabric offers it.
 *
 * A link has a segment at each end: memory that the peer puts into and this process polls. What this
 * process will put is composed in its *window*, an image of the peer's segment with the same offsets; put()
 * makes a range of the window appear there. In shm the window is the peer's segment itself and a put costs
 * nothing; in verbs it is a registered mirror and a put is an RDMA WRITE. Puts are asynchronous; they may land
 * late, in any order and in pieces: whoever reads believes a hash, not an order.
 */
#ifndef RSK_FABRIC_H
#define RSK_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a fabric can be relied upon for. */
#define RSK_FABRIC_RELIABLE (1u << 0) /* a put lands or the rail breaks; else: repeat (tick) */
#define RSK_FABRIC_DURABLE (1u << 1) /* a put that returned is seen even if this process dies now */
#define RSK_FABRIC_SYNC (1u << 2)    /* a put has landed when it returns */

/* A put did nothing, and the rail is as it was: it is another process's, from which this one was forked. */
#define RSK_RAIL_MUTE (-ENOTCONN)

struct rsk_rail;
struct rsk_locked;

struct rsk_completion {
	uint64_t token;
	int status; /* 0 or -errno */
};

struct rsk_atomic {
	enum {
		RSK_ATOMIC_ADD, /* @value to the word */
		RSK_ATOMIC_SWAP /* @value instead of it, if it is @expected */
	} what;
	uint64_t value, expected;
};

/* How busy a rail is. */
struct rsk_flow {
	uint64_t under_way_bytes; /* of slots, that were put and are not known to have arrived */
	uint64_t rate; /* bytes per unit of the fabric's own clock while it was busy; 0: not known */
	bool alone;    /* in: it is the only one that is up, and nothing has to be measured */
	bool shut;     /* the peer's ring cannot be reached by it (yet) */
	bool held; /* what was put for this stream piles up unsent: put where it goes on, or elsewhere */
};

struct rsk_fabric_ops {
	const char *name;
	uint32_t caps;

	/*
	 * put - start to make window[off, off+len) visible in the peer's segment. Does not block.
	 * The range may be composed anew only when the peer has said that it has consumed it.
	 * NULL: the window is the peer's memory, nothing to do. Returns 0; 1: it is noted, and goes with the next
	 * due() on the rail; RSK_RAIL_MUTE; other -errno: the rail is broken.
	 */
	int (*put)(struct rsk_rail *rail, uint64_t off, size_t len);

	/*
	 * get - start to fetch len bytes at off of the peer's segment into dst (registered if the fabric
	 * needs that). Returns 1: done at once; 0: completion by poll() with @token; -errno. May be
	 * torn: check the hash. A completion of -EIO while the rail is up: no answer came, several times; dst is as
	 * it was.
	 */
	int (*get)(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);

	/*
	 * atomic - start to change the word of 8 bytes, aligned, at off of the peer's segment, in a control block;
	 * *old becomes what it held before. One after the other for all that come by the same device, as the peer's
	 * own processor sees it only where that is shared memory. Returns as get() does; -EOPNOTSUPP: this device
	 * cannot. What was under way when the rail broke may have been done, and so may one whose completion is -EIO
	 * while the rail is up: the device says that it is done, and no answer came; *old is as it was. Who would
	 * repeat it goes by what the word says, or by a record that names the operation (locked.h).
	 */
	int (*atomic)(struct rsk_rail *rail, uint64_t off, const struct rsk_atomic *op,
		      uint64_t *old, uint64_t token);

	/*
	 * locked - start lock, access and unlock of a record in the peer's segment as one operation
	 * (locked.h), which is borrowed until it is done. Returns as get() does: 1, 0, or what locked.h says
	 * of a refusal; -EAGAIN: too many are under way; -EOPNOTSUPP: this device cannot.
	 */
	int (*locked)(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);

	/* poll - take up to max completions; returns their number or -errno (rail broken). */
	int (*poll)(struct rsk_rail *rail, struct rsk_completion *done, int max);

	/*
	 * due - something for stream @sid was put: who announced sleep for @what (RSK_WAKE_*)? Their
	 * bells, a bit for each index; the announcements are taken back, so whoever got the bits has to
	 * ring(). Called after put(), which it orders before what the caller looks at next (full fence);
	 * never blocks; cheap when nobody sleeps. A fabric that notes its puts sends off all of them, of whatever
	 * stream, in a way that wakes the other end's sleepers; that is all it does, and it returns 0.
	 */
	uint64_t (*due)(struct rsk_rail *rail, uint32_t sid, uint32_t what);

	/*
	 * arrived - does all that was put for the stream whose ring or control block lies at @off of the window lie in
	 * the peer's memory, from where the peer has it even if the rail breaks now? False: not yet; own sleepers of
	 * RSK_WAKE_TX are woken when it does. NULL: what the caps say is all that can be known. Never blocks.
	 */
	bool (*arrived)(struct rsk_rail *rail, uint64_t off);

	/*
	 * flow - how the rail stands, for who has the choice (rails.h): that of the stream whose ring lies at @off of
	 * the window. NULL: it is never one of several.
	 */
	void (*flow)(struct rsk_rail *rail, uint64_t off, struct rsk_flow *flow);

	/*
	 * again - the peer misses [off, off+len) of a ring, a slot of ours, and asks for what rail @lost of several had
	 * carried: put once more if it was that one. As put(); 0 also: it was another one, whose it still is. NULL:
	 * there is never more than one rail.
	 */
	int (*again)(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost);

	/*
	 * several - do puts go by more than one rail at the moment, so that they land in any order? One load. NULL:
	 * there is never more than one.
	 */
	bool (*several)(const struct rsk_rail *rail);

	/* ring - wakes who sleeps on those bells. A system call, for which no lock should be held. */
	void (*notify)(struct rsk_rail *rail, uint64_t doorbells);

	/*
	 * announce - the bell of index @bell is to be rung at the next put for @sid of kind @what; taken
	 * back by the ringing itself or by retract(). The caller orders: announce, full fence, look again, sleep.
	 */
	void (*announce)(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell);
	void (*retract)(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell);

	/* register/unregister memory for put/get other than the segment (zero copy); NULL: not needed. */
	int (*reg)(struct rsk_rail *rail, void *addr, size_t len, uint64_t *key);
	void (*unreg)(struct rsk_rail *rail, uint64_t key);
};

#define RSK_WAKE_RX 1u /* data or a command for the receiver */
#define RSK_WAKE_TX 2u /* credit or an answer for the sender */

/*
 * One path of a link. Owned by its link; immutable after set-up but for @broken, which whoever finds the
 * rail broken sets (relaxed: a hint that stops new puts; what was lost is found by positions and hashes).
 */
struct rsk_rail {
	const struct rsk_fabric_ops *ops;
	uint8_t *window; /* image of the peer's segment */
	uint64_t window_bytes;
	uint8_t *segment; /* own segment: the peer puts here */
	uint64_t segment_bytes;
	void *priv;	     /* the fabric's own */
	_Atomic(int) broken; /* 0 or -errno */
};

static inline int rsk_rail_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	if (!rail->ops->put) {
		atomic_thread_fence(memory_order_release);
		return 0;
	}
	return rail->ops->put(rail, off, len); /* 1: noted */
}

#endif
