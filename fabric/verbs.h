/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.h - the fabric between hosts: RDMA WRITEs of reliable connected queue pairs, by libibverbs and librdmacm.
 *
 * It is a module of its own, librsock-verbs.so, loaded by the process's keeper
 * (stream/link/progress.c) only where there is an RDMA device: the library itself is not linked
 * with libibverbs. This header is all that the two share; the module exports one symbol,
 * rsk_verbs_module.
 *
 * Two kinds of functions:
 *	(keeper)	one thread, the keeper, which may block and allocate
 *	(path)		any thread, in a guarded section (stream/base/sigdefer.h): never blocks, allocates nothing, no
 *			cancellation point, errno as it was; short locks, process-private
 *
 * Memory. A link's segment and window (segment.h) are ordinary memory of this process; parts of them are registered
 * one by one, as streams come: the control blocks of RSK_SEG_REACH streams (a group), the ring of one stream. What is
 * put lies in the window; its place in the peer's segment is the same offset.
 *
 * A put is noted, not posted: due() posts all that was noted for the stream, as few RDMA WRITEs as that takes (slots
 * of a ring that lie side by side are one), the last one WITH_IMM: stream id and RSK_WAKE_*. So each batch costs one
 * completion at the other end, where it is what wakes. The hash decides what is believed, as on every fabric.
 *
 * A ring that the peer has not registered (yet, or cannot) is reached by the link's *indirect buffer*, registered by
 * either end when the rail comes up: slots travel in it as (stream, offset, bytes) and the other end moves them to
 * their place. When it is full, what was noted stays noted, until the other end says that there is room.
 *
 * Completions. One completion channel per device, in all of the process, and receive CQs as rails need them. Invariant:
 * at any time each CQ is armed, or the channel has an event of it to be read, or some thread is in poll(), which reads
 * all events, arms, and only then takes completions. So whoever sleeps on news_fd() after a last look at the ring is
 * woken.
 *
 * Each rail has a protection domain and a receive queue of its own (verbs/domain.c): no peer reaches what is registered
 * for another one, nor uses up its receives.
 */
#ifndef RSK_VERBS_H
#define RSK_VERBS_H

#include "segment.h"

#define RSK_VERBS_VERSION 4u
#define RSK_VERBS_PRIVATE_BYTES 48u /* of private data, that an rdma_cm request carries */
#define RSK_VERBS_INDIRECT_BYTES                                                                   \
	(16u << 10) /* of an indirect buffer: a maximal slot does not fit at once, but in pieces */
#define RSK_VERBS_MSG_BYTES                                                                        \
	640u /* of a word that one end's keeper says to the other's by a rail; whole cells */

struct rsk_verbs;      /* this process's devices, queues, listener */
struct rsk_verbs_rail; /* one queue pair at a time, from us to one peer process */

/* IPv4 in the first 4 bytes, the rest 0. */
struct rsk_verbs_addr {
	uint8_t ip[16];
	uint16_t port;	 /* host byte order */
	uint16_t family; /* AF_INET, AF_INET6 */
	uint32_t scope;	 /* of a link-local IPv6 address, else 0 */
};

/* An address of a device. */
struct rsk_verbs_device_addr {
	struct rsk_verbs_addr addr; /* port 0 */
	uint32_t prefix_bits;	    /* of its network */
	uint16_t device;	    /* places of one port of a device have the same number */
	uint16_t soft;		    /* 1: it is software */
};

/* What the peer has to know of our end of a rail before it can put. Sent in the link's control messages. */
struct rsk_verbs_end {
	uint64_t segment;  /* address of our segment */
	uint64_t indirect; /* address of our indirect buffer, of RSK_VERBS_INDIRECT_BYTES */
	uint32_t indirect_rkey;
	uint32_t pad;
};

/* How rings are reached; of either end's streams. */
enum rsk_verbs_way {
	RSK_VERBS_CLOSED,   /* not known yet: nothing may be put */
	RSK_VERBS_INDIRECT, /* by the indirect buffer */
	RSK_VERBS_DIRECT    /* by RDMA WRITE to its place */
};

/* Counted from the process's start; relaxed. */
struct rsk_verbs_counters {
	_Atomic(uint64_t) writes, write_bytes; /* work requests posted, their payload */
	_Atomic(uint64_t) with_imm;	       /* of those, with immediate */
	_Atomic(uint64_t) inlined;
	_Atomic(uint64_t) indirect_slots, indirect_bytes; /* sent by an indirect buffer */
	_Atomic(uint64_t)
		held_back; /* due() that had to leave something noted: queue or indirect buffer full */
	_Atomic(uint64_t) completions; /* taken, of receives */
	_Atomic(uint64_t) events;      /* read from completion channels */
	_Atomic(uint64_t) registered_bytes, register_failed;
	_Atomic(uint64_t) reads, atomics; /* of the peer's memory */
};

/* What the module needs of the process, and tells it. */
struct rsk_verbs_host {
	void *ctx;

	/*
	 * (keeper) Move a descriptor of ours to where it does not disturb the application: the new number, or -errno
	 * and the old one is closed. close() is the counterpart.
	 */
	int (*own_fd)(void *ctx, int fd);
	void (*own_close)(void *ctx, int fd);

	/*
	 * (keeper) Somebody at @from wants a rail to @here, an address of ours (port 0; family 0: it is not known),
	 * with that private data: one made for it by rail_new(), or NULL: refused, and he hears of nothing but that.
	 */
	struct rsk_verbs_rail *(*incoming)(void *ctx, const struct rsk_verbs_addr *from,
					   const struct rsk_verbs_addr *here, const void *data,
					   size_t bytes);
	/* (keeper) Established: end() is known from here on. */
	void (*up)(void *ctx, void *rail_ctx);
	/*
	 * (keeper) It could not be had, or has broken: @err < 0 says why (-ECONNREFUSED, -ETIMEDOUT, -ENODEV, -EPIPE:
	 * the peer disconnected, -EIO ...). Nothing comes in any more. Once per connect() or incoming().
	 */
	void (*down)(void *ctx, void *rail_ctx, int err);
	/* (keeper) A device came or went: addresses may be tried again. */
	void (*devices)(void *ctx);
	/* (keeper) The other end's keeper has said that by this rail (rail_say): whatever a peer may say. Borrowed. */
	void (*heard)(void *ctx, void *rail_ctx, const uint8_t word[static RSK_VERBS_MSG_BYTES]);

	/* (path) Something was put for @sid; RSK_WAKE_*. Called without any lock of the module's. */
	void (*news)(void *ctx, void *rail_ctx, uint32_t sid, uint32_t what);
	/* (path) Call work() soon: something waits for a completion, or went wrong. At most a write to an eventfd. */
	void (*call)(void *ctx);
};

struct rsk_verbs_module {
	uint32_t version;

	/* (keeper) 0 or -errno; -ENODEV: there is no RDMA device. @host is borrowed until close. */
	int (*open)(const struct rsk_verbs_host *host, struct rsk_verbs **out);
	void (*close)(struct rsk_verbs *v); /* no rail is left */

	/* (keeper) Poll it for POLLIN, then work(): rdma_cm's events, devices' events, errors, what was held back. */
	int (*work_fd)(const struct rsk_verbs *v);
	void (*work)(struct rsk_verbs *v);

	/*
	 * (path) Poll it for POLLIN: completions of any rail may be there; then poll(). Stays valid and the same
	 * while v is open. Level triggered; may be added to several epoll sets, also edge triggered.
	 */
	int (*news_fd)(const struct rsk_verbs *v);
	/*
	 * (path) Takes completions, tells news(). With @events it reads the event and arms before that: after a
	 * sleep on news_fd(); without it is a cheap look, and the event stays to be read. Number of completions.
	 */
	int (*poll)(struct rsk_verbs *v, bool events);

	/* (keeper) Accept rails at this port of all addresses; 0: any. The port, or -errno. */
	int (*listen)(struct rsk_verbs *v, uint16_t port);

	/* (keeper) Is @addr (port ignored) an address of an RDMA device here? 0, or -ENODEV ... */
	int (*has_address)(struct rsk_verbs *v, const struct rsk_verbs_addr *addr);

	/*
	 * (keeper) This host's addresses of RDMA devices that are there now, link-local ones left out: how many of them
	 * are in out[most]. Opens nothing that stays open.
	 */
	uint32_t (*addresses)(struct rsk_verbs *v, struct rsk_verbs_device_addr *out,
			      uint32_t most);

	/*
	 * (keeper) A rail for the segment and window of @seg, in which both geometries are known and mapped. @rail is
	 * what puts go by: seg->rail itself, or one of several for the same segment; it is filled, and broken set as it
	 * comes up and goes down. Both borrowed until rail_free(). NULL: no memory.
	 */
	struct rsk_verbs_rail *(*rail_new)(struct rsk_verbs *v, struct rsk_seg *seg,
					   struct rsk_rail *rail, void *rail_ctx);
	/* (keeper) From @from (family 0: any) to @to, in the background; up() or down() tell. Again after down(). */
	int (*rail_connect)(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
			    const struct rsk_verbs_addr *to, const void *data, size_t bytes);
	/*
	 * (keeper) Nothing comes in or goes out any more when it returns; down() is not called. Registrations stay,
	 * what was noted and what the peer has said of itself (set_peer, set_ctl, set_ring) does not. Waits for
	 * threads that are in news() of this rail: no lock may be held that news() takes. All of it is true of a rail
	 * before its down(), from which it may be freed or connected again.
	 */
	void (*rail_break)(struct rsk_verbs_rail *r);
	void (*rail_free)(struct rsk_verbs_rail *r);

	/*
	 * (keeper) While up. Ours for the peer; the peer's for us: from here on its control blocks and rings can be
	 * set.
	 */
	int (*rail_end)(struct rsk_verbs_rail *r, struct rsk_verbs_end *out);
	int (*rail_set_peer)(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer);
	/* (keeper) While up: the address of ours that it goes from; port 0. */
	void (*rail_from)(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from);
	/* (keeper) Name of the device and port, for the record; MTU in bytes. */
	const char *(*rail_device)(const struct rsk_verbs_rail *r, uint32_t *mtu_bytes);

	/*
	 * (keeper) Register our control blocks of a group, our ring of a stream: the rkey for the peer in *rkey.
	 * Twice is once. 0, -ENOMEM (RLIMIT_MEMLOCK, device limits: may succeed later), -errno. A rail that comes up
	 * on another device has lost them all. reg_limit() is the most that this process registers, in bytes; 0: no
	 * limit of ours. -ENOTCONN: no device is known yet (before the first up()). A ring must be accessible
	 * (rsk_seg_reach()).
	 *
	 * unreg_ring(): a write of the peer's that is still under way would break the rail: the peer must have closed
	 * the ring (set_ring), settled, and said so. The environment's RSK_VERBS_FAIL_REG=n makes n % of the calls
	 * that would register a ring of ours fail with -ENOMEM; for tests.
	 * RSK_VERBS_ACK_TIMEOUT=n (14): 4.096 us * 2^n until a packet is sent again, for machines that stall.
	 */
	int (*reg_ctl)(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey);
	int (*reg_ring)(struct rsk_verbs_rail *r, uint32_t sid, uint32_t *rkey);
	void (*unreg_ring)(struct rsk_verbs_rail *r, uint32_t sid); /* and the window's */
	void (*reg_limit)(struct rsk_verbs *v, uint64_t bytes);
	/*
	 * (keeper) While up: the fabric's op locked may be called from here on, which wants 33 KiB registered. Again
	 * after each up(); twice is once. 0, -EOPNOTSUPP: the device has no atomic operations; -ENOMEM.
	 */
	int (*reg_locked)(struct rsk_verbs_rail *r);

	/*
	 * (keeper) What the peer has registered, and how its ring of @sid is to be reached from now on. DIRECT also
	 * registers the window's ring; where that fails it is INDIRECT, which is returned. Way or -errno.
	 */
	int (*set_ctl)(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey);
	int (*set_ring)(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way,
			uint32_t rkey);
	/* (path) enum rsk_verbs_way */
	int (*ring_way)(const struct rsk_verbs_rail *r, uint32_t sid);

	/*
	 * (keeper) Is the peer still there? Posts a write of no bytes if nothing is under way whose end will be known
	 * anyway; down() tells if it is not: after about half a second, -ETIMEDOUT.
	 */
	void (*rail_probe)(struct rsk_verbs_rail *r);
	/*
	 * (keeper) While up: a word to the other end's keeper, copied; in order among those of this rail, and lost with
	 * it. It waits for room as slots do. 0, -ENOTCONN, -ENOMEM, -EINVAL: more than a word has room for.
	 */
	int (*rail_say)(struct rsk_verbs_rail *r, const void *word, size_t bytes);
	/* (keeper) Words are waited for: completions are taken by work() as well, not by whoever makes a call alone. */
	void (*msgs_wanted)(struct rsk_verbs *v, bool wanted);
	/*
	 * (keeper, or the last thread of an ending process) Waits until what was put has arrived. 0, -ETIMEDOUT,
	 * -EIO.
	 */
	int (*rail_settle)(struct rsk_verbs_rail *r, uint64_t timeout_ns);

	const struct rsk_verbs_counters *(*counters)(const struct rsk_verbs *v);

	/*
	 * In the child of a fork, before anything else: closes the child's copies of all descriptors, touches no
	 * queue.
	 */
	void (*forked)(struct rsk_verbs *v);
};

/* The module's only exported symbol: "rsk_verbs_module". */

#endif
