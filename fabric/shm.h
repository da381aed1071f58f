/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - the fabric of one host: each end of a link owns a sealed memfd that the other maps too.
 *
 * A put is the store itself. Layout of a segment (offsets are the same at both ends, agreed in the link's
 * greeting and never read from the segment):
 *
 *	0		struct rsk_shm_head	ready map, epolls asleep
 *	ctl_off		struct rsk_shm_ctl	[streams]
 *	ring_off	rings			[streams] of ring_bytes
 *
 * All of it is reserved at once and has pages where it was touched. Rings can be touched up to the highest stream that
 * was ever joined (rsk_shm_reach()): what locks all it maps into memory locks no more than that.
 *
 * Who writes what stands at each field. Everything the peer writes is believed only after a check: mails and
 * slots carry a hash, masks only decide which of our own bells or streams are looked at.
 */
#ifndef RSK_SHM_H
#define RSK_SHM_H

#include <rsock/slot.h>

#include "fabric.h"

#define RSK_SHM_STREAMS 32768u /* per link at most; stream ids are 0 .. streams - 1 */
#define RSK_SHM_MIN_STREAMS 1024u
#define RSK_SHM_BYTES                                                                              \
	(16ull << 30)	  /* of a segment, about, where more than the fewest streams are reserved */
#define RSK_SHM_REACH 32u /* streams whose rings are made accessible at once */
#define RSK_SHM_BELLS 8u  /* eventfds per end of a link; the last one is shared by all comers */
#define RSK_SHM_SHARED_BELL (RSK_SHM_BELLS - 1)
#define RSK_SHM_MIN_RING (16u << 10)
#define RSK_SHM_MAX_RING (16u << 20)

#define RSK_SHM_SUM_STREAMS (64u * 64u) /* that one word of the summary stands for */
#define RSK_SHM_SUMS (RSK_SHM_STREAMS / RSK_SHM_SUM_STREAMS)
#define RSK_SHM_HEAD_BYTES 8192u

/* Memory orders: set and exchanged seq_cst; sleepers announce, fence, look; ringers put, fence, load. */
struct rsk_shm_head {
	_Atomic(uint64_t) ready_sum[RSK_SHM_SUMS]; /* a bit per word below; peer sets, owner takes */
	uint8_t pad0[64];
	_Atomic(uint64_t) asleep; /* a bit per bell of an epoll that sleeps; owner sets, peer
							  * takes with the ringing */
	_Atomic(uint64_t)
		rang_ns; /* CLOCK_MONOTONIC when the peer rang a bell last; peer sets, relaxed: a hint */
	_Atomic(uint32_t) messages; /* peer adds after each message on the control socket */
	uint8_t pad1[108];
	_Atomic(uint64_t) ready[RSK_SHM_STREAMS / 64]; /* a bit per stream with news for an epoll */
};
_Static_assert(sizeof(struct rsk_shm_head) <= RSK_SHM_HEAD_BYTES, "head");
_Static_assert(RSK_SHM_SUMS == 8, "the summary is one cache line");

struct rsk_shm_ctl {
	struct rsk_mail txmail; /* peer, as the sender */
	struct rsk_mail rxmail; /* peer, as the receiver */
	uint8_t pad0[48];
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
		consumed; /* owner's exact index in its ring; peer reads at the end of life */
	uint8_t pad2[56];
};
_Static_assert(sizeof(struct rsk_shm_ctl) == 256, "ctl block");

/* Geometry of one segment. */
struct rsk_shm_geometry {
	uint64_t bytes;
	uint32_t ring_bytes; /* power of two */
	uint32_t streams;
};

/* One end of a link. Owned by its rsk_link; family memory. */
struct rsk_shm {
	struct rsk_rail rail; /* segment, window */
	struct rsk_shm_geometry own, peer;
	uint32_t window_streams; /* of the peer's, that are mapped; offsets are those of all */
	_Atomic(uint32_t)
		reach; /* streams whose rings are accessible; grows, in the process that made the link */
	int peer_bell[RSK_SHM_BELLS]; /* eventfds to ring, -1: none */
};

extern const struct rsk_fabric_ops rsk_shm_ops;

static inline uint64_t rsk_shm_ctl_off(uint32_t sid)
{
	return RSK_SHM_HEAD_BYTES + (uint64_t)sid * sizeof(struct rsk_shm_ctl);
}

static inline uint64_t rsk_shm_ring_off(const struct rsk_shm_geometry *g, uint32_t sid)
{
	return ((rsk_shm_ctl_off(g->streams) + 4095) & ~4095ull) + (uint64_t)sid * g->ring_bytes;
}

/* Stream ids that both ends have room for. */
static inline uint32_t rsk_shm_streams(const struct rsk_shm *shm)
{
	return shm->own.streams < shm->window_streams ? shm->own.streams : shm->window_streams;
}

/* Words of the summary in which the peer of a link can have marked anything that counts. */
static inline uint32_t rsk_shm_sums(const struct rsk_shm *shm)
{
	uint32_t reach = atomic_load_explicit(&shm->reach, memory_order_relaxed);

	return (reach + RSK_SHM_SUM_STREAMS - 1) / RSK_SHM_SUM_STREAMS;
}

static inline struct rsk_shm_ctl *rsk_shm_own_ctl(const struct rsk_shm *shm, uint32_t sid)
{
	return (struct rsk_shm_ctl *)(void *)(shm->rail.segment + rsk_shm_ctl_off(sid));
}

static inline struct rsk_shm_ctl *rsk_shm_peer_ctl(const struct rsk_shm *shm, uint32_t sid)
{
	return (struct rsk_shm_ctl *)(void *)(shm->rail.window + rsk_shm_ctl_off(sid));
}

static inline struct rsk_shm_head *rsk_shm_own_head(const struct rsk_shm *shm)
{
	return (struct rsk_shm_head *)(void *)shm->rail.segment;
}

static inline struct rsk_shm_head *rsk_shm_peer_head(const struct rsk_shm *shm)
{
	return (struct rsk_shm_head *)(void *)shm->rail.window;
}

/* Is it a geometry we can live with (from a peer that may be hostile)? 0 or -EPROTO. */
int rsk_shm_geometry_check(const struct rsk_shm_geometry *g);

/*
 * rsk_shm_create - own segment: a sealed memfd, mapped. Returns the memfd (caller sends it to the peer and closes
 * it) or -errno. @shm->own is filled: rings of @ring_bytes, as many as this process may reserve, and no more than the
 * peer's segment has, if that is there already.
 */
int rsk_shm_create(struct rsk_shm *shm, uint32_t ring_bytes);

/*
 * rsk_shm_attach - map the peer's segment: checks size and seals of @memfd against @g. Of the end that creates its own
 * afterwards it maps no more rings than this process may reserve. 0 or -errno. Keeps no reference to the fd.
 */
int rsk_shm_attach(struct rsk_shm *shm, int memfd, const struct rsk_shm_geometry *g);

/* Make the rings of @sid accessible in both segments, once there are both. 0 or -errno. */
int rsk_shm_reach(struct rsk_shm *shm, uint32_t sid);

/* Nobody will read what lies in our ring of @sid: its pages go. */
void rsk_shm_drop_ring(const struct rsk_shm *shm, uint32_t sid);

/* Unmap what is mapped. Bells are the link's to close. */
void rsk_shm_detach(struct rsk_shm *shm);

#endif
