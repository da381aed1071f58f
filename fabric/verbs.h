/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.h - the fabric between hosts: RDMA WRITEs of reliable connected queue pairs, by libibverbs
 * and librdmacm.
 *
 * It is a module of its own, librsock-verbs.so, which the process's progress thread
 * (stream/link/progress.c) loads only where there is an RDMA device: the library itself is not
 * linked with libibverbs. This header is the whole interface; the module exports one symbol,
 * rsk_verbs_module.
 *
 * Two kinds of functions:
 *	(progress)	only the progress thread; may block and allocate
 *	(path)		any thread, in a signal-deferred section (stream/base/sigdefer.h): never
 *			blocks, allocates nothing, no cancellation point, errno unchanged; short
 *			locks, process-private
 *
 * Memory. A link's segment and window (segment.h) are ordinary memory of this process. Parts of
 * them are registered one by one, as streams are paired: the control blocks of RSK_SEG_REACH
 * streams (a group), the ring of one stream. What is put is in the window; its place in the peer's
 * segment has the same offset.
 *
 * A put becomes a pending write and is not posted. due() posts all pending writes of the stream, as
 * few RDMA WRITEs as possible (adjacent slots of a ring are one), the last one WITH_IMM: stream id
 * and RSK_WAKE_*. So each batch costs one completion at the other end, which wakes the receiver
 * there. The hash decides what is accepted, as on every fabric.
 *
 * A ring that the peer has not registered (yet, or cannot register) is reached by the link's
 * *indirect buffer*, which each end registers when the rail comes up: slots travel in it as
 * (stream, offset, bytes), and the other end moves them to their place. When it is full, pending
 * writes stay pending until the other end reports that there is room.
 *
 * Completions. There is one completion channel per device in the process, and receive CQs as rails
 * need them. Invariant: at any time each CQ is armed, or the channel has an event of it to be read,
 * or some thread is in poll(), which reads all events, arms, and only then takes completions. So a
 * thread that sleeps on news_fd() after a last check of the ring is woken.
 *
 * Each rail has a protection domain and a receive queue of its own (verbs/domain.c): no peer can
 * reach what is registered for another one, or use up its receives.
 */
#ifndef RSK_VERBS_H
#define RSK_VERBS_H

#include <rsock/stats.h>
#include <rsock/version.h>

#include "segment.h"

/* Private data that an rdma_cm request carries. */
#define RSK_VERBS_PRIVATE_BYTES 48u
/* Of an indirect buffer; a slot of maximum size goes through it in pieces. */
#define RSK_VERBS_INDIRECT_BYTES (16u << 10)
/* A control message from one end's progress thread to the other's by a rail; whole cells. */
#define RSK_VERBS_MSG_BYTES 640u

struct rsk_verbs; /* this process's devices, queues, listener */
/* One queue pair at a time, from this process to one peer process. */
struct rsk_verbs_rail;

/* IPv4: the first 4 bytes, the rest 0. */
struct rsk_verbs_addr {
	uint8_t ip[16];
	uint16_t port;	 /* host byte order */
	uint16_t family; /* AF_INET, AF_INET6 */
	uint32_t scope;	 /* of a link-local IPv6 address, else 0 */
};

/* A device address. */
struct rsk_verbs_device_addr {
	struct rsk_verbs_addr addr; /* port 0 */
	uint32_t prefix_bits;	    /* of its network */
	/* The same for all addresses of one port of a device. */
	uint16_t device;
	uint16_t soft; /* 1: a software device */
};

/*
 * What the peer has to know of this end of a rail before it can put. Sent on the control
 * connection.
 */
struct rsk_verbs_end {
	uint64_t segment; /* address of our segment */
	/* Address of our indirect buffer, of RSK_VERBS_INDIRECT_BYTES. */
	uint64_t indirect;
	uint32_t indirect_rkey;
	uint32_t pad;
};

/* How a ring is reached; for streams of either end. */
enum rsk_verbs_way {
	RSK_VERBS_CLOSED,   /* not known yet: nothing may be put */
	RSK_VERBS_INDIRECT, /* by the indirect buffer */
	RSK_VERBS_DIRECT    /* by RDMA WRITE to its place */
};

/* What the process provides to the module: helpers and callbacks. */
struct rsk_verbs_host {
	void *ctx;
	/* RSK_STATS_VERBS_COUNT words, to which the module adds; borrowed until close. */
	uint64_t *counts;

	/*
	 * (progress) Moves a descriptor of ours to a number that does not disturb the application.
	 * Returns the new number, or -errno and the old one is closed. own_close() closes it.
	 */
	int (*own_fd)(void *ctx, int fd);
	void (*own_close)(void *ctx, int fd);

	/*
	 * (progress) A peer at @from requests a rail to @here, an address of ours (port 0; family
	 * 0: not known), with that private data; @bytes includes padding where rdma_cm has added
	 * some (InfiniBand). Returns a rail made for it by rail_new(), or NULL: refused, and the
	 * peer learns nothing more.
	 */
	struct rsk_verbs_rail *(*incoming)(void *ctx, const struct rsk_verbs_addr *from,
					   const struct rsk_verbs_addr *here, const void *data,
					   size_t bytes);
	/* (progress) The rail is established: end() is known from here on. */
	void (*up)(void *ctx, void *rail_ctx);
	/*
	 * (progress) The rail could not be established, or has broken: @err < 0 is the reason
	 * (-ECONNREFUSED, -ETIMEDOUT, -ENODEV, -EPIPE: the peer disconnected, -EIO ...). Nothing
	 * arrives any more. Called once per connect() or incoming().
	 */
	void (*down)(void *ctx, void *rail_ctx, int err);
	/* (progress) A device was added or removed: addresses may be tried again. */
	void (*devices)(void *ctx);
	/*
	 * (progress) The other end's progress thread has sent a control message by this rail
	 * (rail_say). It may contain anything. Borrowed.
	 */
	void (*heard)(void *ctx, void *rail_ctx, const uint8_t word[static RSK_VERBS_MSG_BYTES]);

	/*
	 * (path) Something was put for @sid; @what: RSK_WAKE_*. Called without any lock of the
	 * module.
	 */
	void (*news)(void *ctx, void *rail_ctx, uint32_t sid, uint32_t what);
	/*
	 * (path) work() is to be called soon: a completion is awaited, or there was an error. At
	 * most a write to an eventfd.
	 */
	void (*call)(void *ctx);
};

struct rsk_verbs_module {
	uint32_t version;

	/*
	 * (progress) Returns 0 or -errno; -ENODEV: there is no RDMA device. @host is borrowed until
	 * close.
	 */
	int (*open)(const struct rsk_verbs_host *host, struct rsk_verbs **out);
	void (*close)(struct rsk_verbs *v); /* there must be no rail left */

	/*
	 * (progress) Poll it for POLLIN, then call work(): events of rdma_cm and devices, errors,
	 * writes that were held back.
	 */
	int (*work_fd)(const struct rsk_verbs *v);
	void (*work)(struct rsk_verbs *v);

	/*
	 * (path) Poll it for POLLIN: there may be completions of any rail; then call poll(). Stays
	 * valid and the same while @v is open. Level triggered; may be added to several epoll sets,
	 * also edge triggered.
	 */
	int (*news_fd)(const struct rsk_verbs *v);
	/*
	 * (path) Takes completions and calls news(). With @events it reads the event and arms
	 * before that, as is needed after a sleep on news_fd(); without, it is a cheap check, and
	 * the event stays to be read. Returns the number of completions.
	 */
	int (*poll)(struct rsk_verbs *v, bool events);

	/*
	 * (progress) Accepts rails at this port of all addresses; 0: any port. Returns the port;
	 * -EADDRINUSE: another RDMA listener has it; -errno.
	 */
	int (*listen)(struct rsk_verbs *v, uint16_t port);

	/*
	 * (progress) Stores this host's device addresses, without link-local ones, in out[most],
	 * and returns their number. Opens nothing that stays open.
	 */
	uint32_t (*addresses)(struct rsk_verbs *v, struct rsk_verbs_device_addr *out,
			      uint32_t most);

	/*
	 * (progress) Creates a rail for the segment and window of @seg, in which both geometries
	 * are known and mapped. @rail is what puts go by: seg->rail itself, or one of several for
	 * the same segment. It is filled, and @broken is set as it comes up and goes down. Both are
	 * borrowed until rail_free(). NULL: no memory.
	 */
	struct rsk_verbs_rail *(*rail_new)(struct rsk_verbs *v, struct rsk_seg *seg,
					   struct rsk_rail *rail, void *rail_ctx);
	/*
	 * (progress) The DSCP of what is sent, at both ends, from the next rail_connect() on; 0:
	 * the system's. A hint: with RoCE v2 it is in the IP header, and on a lossless network
	 * it selects the service level.
	 */
	void (*rail_dscp)(struct rsk_verbs_rail *r, uint8_t dscp);
	/*
	 * (progress) Connects from @from (family 0: any) to @to, in the background; up() or down()
	 * reports the result. May be called again after down().
	 */
	int (*rail_connect)(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
			    const struct rsk_verbs_addr *to, const void *data, size_t bytes);
	/*
	 * (progress) When it returns nothing arrives or leaves any more, and down() is not called.
	 * Registrations stay, of rings those of the first RSK_SEG_FIRST_RING bytes; pending writes,
	 * and what the peer has reported (set_peer, set_ctl, set_ring), do not. Waits for threads
	 * that are in news() of this rail: hold no lock that news() takes. All of this is also true
	 * after down(), in which the rail may be freed or connected again.
	 */
	void (*rail_break)(struct rsk_verbs_rail *r);
	void (*rail_free)(struct rsk_verbs_rail *r);

	/*
	 * (progress) While up. rail_end: this end's data for the peer. rail_set_peer: the peer's
	 * data; from here on its control blocks and rings can be set.
	 */
	int (*rail_end)(struct rsk_verbs_rail *r, struct rsk_verbs_end *out);
	int (*rail_set_peer)(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer);
	/* (progress) While up: the local address of the rail; port 0. */
	void (*rail_from)(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from);
	/* (progress) Name of the device and port, for the statistics; MTU in bytes. */
	const char *(*rail_device)(const struct rsk_verbs_rail *r, uint32_t *mtu_bytes);

	/*
	 * (progress) Register our control blocks of a group, or the first @bytes of our ring of a
	 * stream; *rkey: for the peer. A second registration, of no more bytes, does nothing; of
	 * more, it is one beside the first, of at most RSK_SEG_WIDTHS. Return 0, -ENOMEM
	 * (RLIMIT_MEMLOCK, device limits: may succeed later), -errno; -ENOTCONN: no device is known
	 * yet (before the first up()). A rail that comes up on another device has lost all
	 * registrations. reg_limit() sets the maximum that this process registers, in bytes; 0: no
	 * limit of ours. A ring must be accessible (rsk_seg_reach()).
	 *
	 * The environment's RSK_VERBS_FAIL_REG=n makes n % of the calls that would register a ring
	 * of ours fail with -ENOMEM; for tests. RSK_VERBS_ACK_TIMEOUT=n (14): 4.096 us * 2^n until
	 * a packet is sent again, for machines that stall.
	 */
	int (*reg_ctl)(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey);
	int (*reg_ring)(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes, uint32_t *rkey);
	void (*reg_limit)(struct rsk_verbs *v, uint64_t bytes);

	/*
	 * (progress) What the peer has registered, and how its ring of @sid is reached from now on.
	 * DIRECT also registers the window's ring, of which @bytes are reached; if that fails the
	 * way is INDIRECT, or, of a ring that is reached directly, what it was, and -ENOMEM is
	 * returned. The caller puts nothing beyond @bytes. Returns the way, or -errno.
	 */
	int (*set_ctl)(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey);
	int (*set_ring)(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way,
			uint32_t rkey, uint32_t bytes);
	/*
	 * (progress) Gives registrations of a ring's further bytes back. narrow_ring: of ours; the
	 * peer has said that it uses no more than @bytes, and that all it had put has arrived.
	 * narrow_window: of the window's; nothing is put beyond @bytes any more, and the peer's
	 * ring, if it is reached directly, has the key @rkey from now on. Returns 0; -EAGAIN:
	 * something is still under way; -ENOTCONN.
	 */
	void (*narrow_ring)(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes);
	int (*narrow_window)(struct rsk_verbs_rail *r, uint32_t sid, uint32_t rkey, uint32_t bytes);
	/* (path) Returns an enum rsk_verbs_way. */
	int (*ring_way)(const struct rsk_verbs_rail *r, uint32_t sid);

	/*
	 * (progress) Is the peer still there? Posts a write of no bytes, unless something is under
	 * way whose result will be known anyway. If the peer is gone down() reports it, after about
	 * half a second: -ETIMEDOUT.
	 */
	void (*rail_probe)(struct rsk_verbs_rail *r);
	/*
	 * (progress) While up: sends a control message to the other end's progress thread; copied.
	 * Messages of one rail arrive in order, and are lost with it. They wait for room as slots
	 * do. Returns 0, -ENOTCONN, -ENOMEM, -EINVAL: too long.
	 */
	int (*rail_say)(struct rsk_verbs_rail *r, const void *word, size_t bytes);
	/*
	 * (progress) Control messages are awaited, or threads sleep on something else than
	 * news_fd(): work() takes all completions too, and not only threads that make a call.
	 * Returns whether it does from now on; false of what is wanted: no memory, and work() is
	 * called for another try.
	 */
	bool (*hear)(struct rsk_verbs *v, bool wanted);
	/*
	 * (progress, or the last thread of an ending process) Waits until what was put has arrived.
	 * Returns 0, -ETIMEDOUT, -EIO.
	 */
	int (*rail_settle)(struct rsk_verbs_rail *r, uint64_t timeout_ns);

	/*
	 * Called in a fork child, before anything else: closes the child's copies of all
	 * descriptors, touches no queue. @v and its rails stay unused. open() may be called after
	 * that: what it opens is the child's alone.
	 */
	void (*forked)(struct rsk_verbs *v);
};

/* The module's only exported symbol: "rsk_verbs_module". */

#endif
