/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segment.h - the layout of a link's segments: what two processes put into each other's memory,
 * whatever the fabric. shm.c, verbs/ and stream/ use it. Each end owns a segment. The layouts of
 * both are agreed in the link handshake, and never read from memory:
 *
 *	0		struct rsk_seg_head	ready map, epolls asleep
 *	ctl_off		struct rsk_seg_ctl	[streams]
 *	ring_off	rings			[streams] of ring_bytes
 *
 * All of it is reserved at once, and has pages where it was touched. Rings are accessible up to the
 * highest stream that was ever paired (rsk_seg_reach()), so a process that locks all it maps into
 * memory locks no more than that.
 *
 * Each field says who writes it. "Peer" is the process at the other end if the window is its
 * segment itself (shm). If the window is a mirror (verbs), only control words and slots travel, and
 * this process, which learns of them by completions, does the rest on the peer's behalf
 * (rsk_seg_due() on its own segment). Everything that the peer writes is checked before it is used:
 * control words and slots have a hash, and masks only decide which of our own doorbells or streams
 * are checked.
 */
#ifndef RSK_SEGMENT_H
#define RSK_SEGMENT_H

#include <rsock/mailbox.h>
#include <rsock/slot.h>

#include "fabric.h"

/* Maximum per link; stream ids are 0 .. streams - 1. */
#define RSK_SEG_STREAMS 32768u
#define RSK_SEG_MIN_STREAMS 1024u
/* Approximate size of a segment with more than RSK_SEG_MIN_STREAMS streams. */
#define RSK_SEG_BYTES (16ull << 30)
/* Streams whose rings are made accessible at once. */
#define RSK_SEG_REACH 32u
/* Doorbells per end of a link; the last one is shared by all sleepers that find no other. */
#define RSK_SEG_DOORBELLS 8u
#define RSK_SEG_SHARED_DOORBELL (RSK_SEG_DOORBELLS - 1)
#define RSK_SEG_MIN_RING (16u << 10)
#define RSK_SEG_MAX_RING (16u << 20)

/* Streams that one word of the summary covers. */
#define RSK_SEG_SUM_STREAMS (64u * 64u)
#define RSK_SEG_SUMS (RSK_SEG_STREAMS / RSK_SEG_SUM_STREAMS)
#define RSK_SEG_HEAD_BYTES 8192u

/*
 * Memory orders: set and exchanged seq_cst. A sleeper announces, fences, checks; a notifier puts,
 * fences, loads.
 */
struct rsk_seg_head {
	/* One bit per word of @ready; peer sets, owner takes. */
	_Atomic(uint64_t) ready_sum[RSK_SEG_SUMS];
	uint8_t pad0[64];
	/* One bit per doorbell of an epoll that sleeps; owner sets, peer takes when it notifies. */
	_Atomic(uint64_t) asleep;
	/* CLOCK_MONOTONIC when the peer last notified a doorbell; peer sets, relaxed: a hint. */
	_Atomic(uint64_t) rang_ns;
	/* Incremented by the peer after each message on the control socket. */
	_Atomic(uint32_t) messages;
	uint8_t pad1[108];
	/* One bit per stream with news for an epoll. */
	_Atomic(uint64_t) ready[RSK_SEG_STREAMS / 64];
};
_Static_assert(sizeof(struct rsk_seg_head) <= RSK_SEG_HEAD_BYTES, "head");
_Static_assert(RSK_SEG_SUMS == 8, "the summary is one cache line");

struct rsk_seg_ctl {
	struct rsk_control_word tx_word; /* written by the peer, as the sender */
	struct rsk_control_word rx_word; /* written by the peer, as the receiver */
	/*
	 * A mailbox, of stream 0 only; written by the owner's progress thread, obtained by the
	 * peer's.
	 */
	uint64_t link[6];
	/* Doorbells to notify at data or a command; owner sets, peer takes. */
	_Atomic(uint64_t) want_rx;
	/* Doorbells to notify at credit or an answer; owner sets, peer takes. */
	_Atomic(uint64_t) want_tx;
	/* Doorbells of the epolls that watch the stream; owner. */
	_Atomic(uint64_t) epolls_rx;
	/* The same, while they wait for room; owner sets, peer takes. */
	_Atomic(uint64_t) epolls_tx;
	/* Credit at which waiters for room are to be woken; owner, relaxed: it only grows. */
	_Atomic(uint64_t) room_at;
	/* Processor of the owner's last call, + 1. */
	_Atomic(uint32_t) cpu;
	/*
	 * Not 0: the owner has closed the stream, and another process goes on with it, by TCP. The
	 * owner stores (release), at its close; the peer's sender reads (acquire).
	 */
	_Atomic(uint32_t) left;
	uint8_t pad1[16];
	/*
	 * A cache line of its own: the owner writes it at each receive, while the peer reads the
	 * line before it at each send.
	 */
	/* The owner's exact index in its ring; the peer reads it when the stream ends. */
	_Atomic(uint64_t) consumed;
	/*
	 * A mailbox; written by the owner, under its rx lock; obtained by the peer's progress
	 * thread.
	 */
	uint64_t credit[6];
	/*
	 * Which end has ended the peer's promotion; both write, compare and swap (<rsock/slot.h>).
	 */
	_Atomic(uint64_t) ended;
};
_Static_assert(sizeof(struct rsk_seg_ctl) == 256, "ctl block");
_Static_assert(sizeof(((struct rsk_seg_ctl *)0)->link) ==
		       RSK_MAILBOX_FRAME_BYTES + sizeof(struct rsk_mailbox_link),
	       "link");
_Static_assert(sizeof(((struct rsk_seg_ctl *)0)->credit) ==
		       RSK_MAILBOX_FRAME_BYTES + sizeof(struct rsk_mailbox_credit),
	       "credit");

/* Geometry of one segment. */
struct rsk_seg_geometry {
	uint64_t bytes;
	uint32_t ring_bytes; /* a power of two */
	uint32_t streams;
};

/* One end of a link. Owned by its rsk_link; in memory that a fork copies. */
struct rsk_seg {
	struct rsk_rail rail; /* segment, window */
	struct rsk_seg_geometry own, peer;
	/* Streams of the peer's segment that are mapped; offsets are those of all. */
	uint32_t window_streams;
	/* Streams whose rings are accessible; grows, in the process that created the link. */
	_Atomic(uint32_t) reach;
	int peer_doorbell[RSK_SEG_DOORBELLS]; /* doorbells of the peer, -1: none */
};

static inline uint64_t rsk_seg_ctl_off(uint32_t sid)
{
	return RSK_SEG_HEAD_BYTES + (uint64_t)sid * sizeof(struct rsk_seg_ctl);
}

static inline uint64_t rsk_seg_ring_off(const struct rsk_seg_geometry *g, uint32_t sid)
{
	return ((rsk_seg_ctl_off(g->streams) + 4095) & ~4095ull) + (uint64_t)sid * g->ring_bytes;
}

/* The number of stream ids for which both ends have room. */
static inline uint32_t rsk_seg_streams(const struct rsk_seg *seg)
{
	return seg->own.streams < seg->window_streams ? seg->own.streams : seg->window_streams;
}

/* Words of the summary in which the peer of a link can have set a valid bit. */
static inline uint32_t rsk_seg_sums(const struct rsk_seg *seg)
{
	uint32_t reach = atomic_load_explicit(&seg->reach, memory_order_relaxed);

	return (reach + RSK_SEG_SUM_STREAMS - 1) / RSK_SEG_SUM_STREAMS;
}

static inline struct rsk_seg_ctl *rsk_seg_own_ctl(const struct rsk_seg *seg, uint32_t sid)
{
	return (struct rsk_seg_ctl *)(void *)(seg->rail.segment + rsk_seg_ctl_off(sid));
}

static inline struct rsk_seg_ctl *rsk_seg_peer_ctl(const struct rsk_seg *seg, uint32_t sid)
{
	return (struct rsk_seg_ctl *)(void *)(seg->rail.window + rsk_seg_ctl_off(sid));
}

static inline struct rsk_seg_head *rsk_seg_own_head(const struct rsk_seg *seg)
{
	return (struct rsk_seg_head *)(void *)seg->rail.segment;
}

static inline struct rsk_seg_head *rsk_seg_peer_head(const struct rsk_seg *seg)
{
	return (struct rsk_seg_head *)(void *)seg->rail.window;
}

/*
 * How much of a ring between hosts is used, and registered: at first, and next after @bytes. A ring
 * that is found full becomes RSK_SEG_WIDER times as wide, up to all of it.
 */
#define RSK_SEG_FIRST_RING RSK_SEG_MIN_RING
#define RSK_SEG_WIDER 8u
/* Widths from RSK_SEG_FIRST_RING to RSK_SEG_MAX_RING: 16 and 128 KiB, 1, 8 and 16 MiB. */
#define RSK_SEG_WIDTHS 5u

static inline uint32_t rsk_seg_ring_wider(const struct rsk_seg_geometry *g, uint32_t bytes)
{
	return bytes < g->ring_bytes / RSK_SEG_WIDER ? bytes * RSK_SEG_WIDER : g->ring_bytes;
}

/* The width before @bytes. */
static inline uint32_t rsk_seg_ring_narrower(const struct rsk_seg_geometry *g, uint32_t bytes)
{
	uint32_t width = RSK_SEG_FIRST_RING;

	while (rsk_seg_ring_wider(g, width) < bytes)
		width = rsk_seg_ring_wider(g, width);
	return width;
}

/* Checks a geometry, which may come from a hostile peer. Returns 0 or -EPROTO. */
int rsk_seg_geometry_check(const struct rsk_seg_geometry *g);

/*
 * rsk_seg_map - reserves @bytes of @fd, which may be less than the geometry says; head and control
 * blocks are accessible. Returns 0 or -errno.
 */
int rsk_seg_map(int fd, const struct rsk_seg_geometry *g, uint64_t bytes, uint8_t **at);

/* The maximum number of streams for which this process may reserve rings of that size. */
uint32_t rsk_seg_most_streams(uint32_t ring_bytes);

/* Makes the rings of @sid accessible in both segments, once both exist. Returns 0 or -errno. */
int rsk_seg_reach(struct rsk_seg *seg, uint32_t sid);

/*
 * What is in our ring of @sid, or in the window's, behind its first @bytes will not be read any
 * more: frees the pages.
 */
void rsk_seg_drop_ring(const struct rsk_seg *seg, uint32_t sid, uint32_t bytes);
void rsk_seg_drop_window(const struct rsk_seg *seg, uint32_t sid, uint32_t bytes);

/*
 * In a fork child, which has none of the link's memory: maps zero pages of its own there, if that
 * is possible.
 */
void rsk_seg_hollow(const struct rsk_seg *seg);

/* Unmaps what is mapped. The link closes the doorbells. */
void rsk_seg_detach(struct rsk_seg *seg);

/*
 * rsk_seg_due - something was put for @sid into the segment that begins with @head. Returns the
 * doorbells of those that sleep for @what, withdraws their announcements, and updates the ready
 * map. Begins with a full fence.
 */
uint64_t rsk_seg_due(struct rsk_seg_head *head, uint32_t sid, uint32_t what);

/* The ops announce and retract of a fabric whose announcements are in the own segment. */
void rsk_seg_announce(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell);
void rsk_seg_retract(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell);

#endif
