/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segment.h - what two processes put into each other's memory over a link, whatever the fabric. Each end owns a
 * segment; the layout of both is agreed in the link's greeting and never read from memory:
 *
 *	0		struct rsk_seg_head	ready map, epolls asleep
 *	ctl_off		struct rsk_seg_ctl	[streams]
 *	ring_off	rings			[streams] of ring_bytes
 *
 * All of it is reserved at once and has pages where it was touched. Rings can be touched up to the highest stream
 * that was ever joined (rsk_seg_reach()): what locks all it maps into memory locks no more than that.
 *
 * Who writes what stands at each field. "Peer" is the process at the other end where the window is its segment
 * itself (shm); where it is a mirror (verbs) only mails and slots travel, and this process, which learns of them by
 * completions, does the rest in the peer's place (rsk_seg_due() on its own segment). Everything the peer writes is
 * believed only after a check: mails and slots carry a hash, masks only decide which of our own bells or streams
 * are looked at.
 */
#ifndef RSK_SEGMENT_H
#define RSK_SEGMENT_H

#include <rsock/mailbox.h>
#include <rsock/slot.h>

#include "fabric.h"

#define RSK_SEG_STREAMS 32768u /* per link at most; stream ids are 0 .. streams - 1 */
#define RSK_SEG_MIN_STREAMS 1024u
#define RSK_SEG_BYTES                                                                              \
	(16ull << 30)	  /* of a segment, about, where more than the fewest streams are reserved */
#define RSK_SEG_REACH 32u /* streams whose rings are made accessible at once */
#define RSK_SEG_DOORBELLS 8u /* doorbells per end of a link; the last one is shared by all comers */
#define RSK_SEG_SHARED_DOORBELL (RSK_SEG_DOORBELLS - 1)
#define RSK_SEG_MIN_RING (16u << 10)
#define RSK_SEG_MAX_RING (16u << 20)

#define RSK_SEG_SUM_STREAMS (64u * 64u) /* that one word of the summary stands for */
#define RSK_SEG_SUMS (RSK_SEG_STREAMS / RSK_SEG_SUM_STREAMS)
#define RSK_SEG_HEAD_BYTES 8192u

/* Memory orders: set and exchanged seq_cst; sleepers announce, fence, look; ringers put, fence, load. */
struct rsk_seg_head {
	_Atomic(uint64_t) ready_sum[RSK_SEG_SUMS]; /* a bit per word below; peer sets, owner takes */
	uint8_t pad0[64];
	_Atomic(uint64_t) asleep; /* a bit per bell of an epoll that sleeps; owner sets, peer
							  * takes with the ringing */
	_Atomic(uint64_t)
		rang_ns; /* CLOCK_MONOTONIC when the peer rang a bell last; peer sets, relaxed: a hint */
	_Atomic(uint32_t) messages; /* peer adds after each message on the control socket */
	uint8_t pad1[108];
	_Atomic(uint64_t) ready[RSK_SEG_STREAMS / 64]; /* a bit per stream with news for an epoll */
};
_Static_assert(sizeof(struct rsk_seg_head) <= RSK_SEG_HEAD_BYTES, "head");
_Static_assert(RSK_SEG_SUMS == 8, "the summary is one cache line");

struct rsk_seg_ctl {
	struct rsk_control_word tx_word; /* peer, as the sender */
	struct rsk_control_word rx_word; /* peer, as the receiver */
	uint64_t link[6]; /* a mailbox, of stream 0 alone: owner's keeper; the peer's keeper obtains it */
	_Atomic(uint64_t) want_rx; /* bells to ring at data or a command; owner sets, peer takes */
	_Atomic(uint64_t) want_tx; /* bells to ring at credit or an answer; owner sets, peer takes */
	_Atomic(uint64_t) epolls_rx; /* bells of the epolls that watch it; owner */
	_Atomic(uint64_t) epolls_tx; /* the same, while they wait for room; owner sets, peer takes */
	_Atomic(uint64_t)
		room_at; /* credit at which who waits for room is to be woken; owner, relaxed: it only grows */
	_Atomic(uint32_t) cpu; /* owner's processor at its last call, + 1 */
	uint8_t pad1[20];
	/* A line of its own: written at each receive, while the peer reads the line before at each send. */
	_Atomic(uint64_t)
		consumed;   /* owner's exact index in its ring; peer reads at the end of life */
	uint64_t credit[6]; /* a mailbox: owner, under its rx lock; the peer's keeper obtains it */
	_Atomic(uint64_t)
		ended; /* who has ended the peer's promotion: both, compare and swap (<rsock/slot.h>) */
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
	uint32_t ring_bytes; /* power of two */
	uint32_t streams;
};

/* One end of a link. Owned by its rsk_link; family memory. */
struct rsk_seg {
	struct rsk_rail rail; /* segment, window */
	struct rsk_seg_geometry own, peer;
	uint32_t window_streams; /* of the peer's, that are mapped; offsets are those of all */
	_Atomic(uint32_t)
		reach; /* streams whose rings are accessible; grows, in the process that made the link */
	int peer_doorbell[RSK_SEG_DOORBELLS]; /* doorbells to ring, -1: none */
};

static inline uint64_t rsk_seg_ctl_off(uint32_t sid)
{
	return RSK_SEG_HEAD_BYTES + (uint64_t)sid * sizeof(struct rsk_seg_ctl);
}

static inline uint64_t rsk_seg_ring_off(const struct rsk_seg_geometry *g, uint32_t sid)
{
	return ((rsk_seg_ctl_off(g->streams) + 4095) & ~4095ull) + (uint64_t)sid * g->ring_bytes;
}

/* Stream ids that both ends have room for. */
static inline uint32_t rsk_seg_streams(const struct rsk_seg *seg)
{
	return seg->own.streams < seg->window_streams ? seg->own.streams : seg->window_streams;
}

/* Words of the summary in which the peer of a link can have marked anything that counts. */
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

/* Is it a geometry we can live with (from a peer that may be hostile)? 0 or -EPROTO. */
int rsk_seg_geometry_check(const struct rsk_seg_geometry *g);

/*
 * rsk_seg_map - reserve @bytes of @fd, which may be less than the geometry says; head and control blocks can be
 * touched. 0 or -errno.
 */
int rsk_seg_map(int fd, const struct rsk_seg_geometry *g, uint64_t bytes, uint8_t **at);

/* Streams whose rings of that size this process may reserve, at most. */
uint32_t rsk_seg_most_streams(uint32_t ring_bytes);

/* Make the rings of @sid accessible in both segments, once there are both. 0 or -errno. */
int rsk_seg_reach(struct rsk_seg *seg, uint32_t sid);

/* Nobody will read what lies in our ring of @sid: its pages go. */
void rsk_seg_drop_ring(const struct rsk_seg *seg, uint32_t sid);

/* In the child of a fork, which has nothing of it: zeros of its own are there instead, if that can be had. */
void rsk_seg_hollow(const struct rsk_seg *seg);

/* Unmap what is mapped. Bells are the link's to close. */
void rsk_seg_detach(struct rsk_seg *seg);

/*
 * rsk_seg_due - something was put for @sid into the segment that begins with @head: the bells of who sleeps for
 * @what, whose announcements are taken back; marks the ready map. Begins with a full fence.
 */
uint64_t rsk_seg_due(struct rsk_seg_head *head, uint32_t sid, uint32_t what);

/* The ops announce and retract of a fabric whose announcements lie in the own segment. */
void rsk_seg_announce(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell);
void rsk_seg_retract(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell);

#endif
