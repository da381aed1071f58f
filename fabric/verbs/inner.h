/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inner.h - what the files of librsock-verbs.so share (what the library knows of it: fabric/verbs.h).
 *
 * Locks, none of which is held while host->news() or another callback runs, innermost last:
 *	vdev.lock	receive CQs, their channel, the table of queue pairs, what they owe their receive queues
 *	rail.in_lock	the indirect buffer that the peer fills, and the moving of what is in it
 *	rail.lock	all that goes out: notes, lists, send queue, send CQ, the peer's keys
 * What is marked keeper is touched by that thread only.
 */
#ifndef RSK_VERBS_INNER_H
#define RSK_VERBS_INNER_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#define HASH_FUNCTION(key, bytes, hashv) ((hashv) = (unsigned int)XXH3_64bits((key), (bytes)))
#include <uthash.h>

#include <rsock/mailbox.h>
#include <rsock/sys.h>

#include "answer.h"
#include "indirect.h"
#include "locked.h"
#include "note.h"
#include "verbs.h"
#include "words.h"

/*
 * The immediate of a message: bits 0-14 stream, 15-23 units that it brought into (or freed in) the indirect buffer,
 * 24-25 kind, 28-29 RSK_WAKE_*.
 */
enum rsk_imm_kind {
	RSK_IMM_DATA = 0,  /* something was put for the stream; units have come */
	RSK_IMM_ROOM = 1,  /* units are free again */
	RSK_IMM_FLUSH = 2, /* say at once what is free */
};
#define RSK_IMM_SID(imm) ((imm)&0x7fffu)
#define RSK_IMM_UNITS(imm) ((imm) >> 15 & 0x1ffu)
#define RSK_IMM_KIND(imm) ((imm) >> 24 & 3u)
#define RSK_IMM_WHAT(imm) ((imm) >> 28 & 3u)
#define RSK_IMM_REST(imm) ((imm)&0xcc000000u) /* must be 0 */
_Static_assert(RSK_SEG_STREAMS == 0x8000 && RSK_INDIRECT_UNITS < 0x200, "they fit the immediate");
_Static_assert(RSK_INDIRECT_BYTES == RSK_VERBS_INDIRECT_BYTES, "one buffer");
_Static_assert(RSK_INDIRECT_WORD_BYTES == RSK_VERBS_WORD_BYTES, "a word is a word");

#define RSK_VERBS_GROUP RSK_SEG_REACH /* streams whose control blocks are registered at once */
#define RSK_VERBS_DEPTH 256u	      /* work requests of a send queue */
#define RSK_VERBS_RECVS 512u	      /* of a queue pair's own receive queue */
#define RSK_VERBS_CQ_RAILS 4u /* queue pairs whose receives complete in one completion queue */
#define RSK_VERBS_INLINE 220u
#define RSK_VERBS_INLINE_LEAST ((uint32_t)(2 * sizeof(struct rsk_mail)))
#define RSK_VERBS_WRITE_BYTES (256u << 10) /* of one work request */
#define RSK_VERBS_READS 16u		   /* at once */
#define RSK_VERBS_READ_BYTES RSK_MAILBOX_BYTES
#define RSK_VERBS_LOCKED 2u /* locked accesses at once */
#define RSK_VERBS_BATCH 8u
#define RSK_VERBS_FRESH 16u

/* What an epoll event of work_fd points to. */
struct rsk_source {
	enum rsk_source_kind {
		RSK_SOURCE_CM,	 /* rdma_cm's events */
		RSK_SOURCE_NEWS, /* the kernel's words about devices */
		RSK_SOURCE_ASYNC,
		RSK_SOURCE_SEND,
		RSK_SOURCE_ROOM /* completions, while something waits for the peer's room */
	} kind;
	struct rsk_vdev *dev; /* of the last two */
};

/*
 * Completions of the receives of some queue pairs. It has a place for each receive that they can have posted, so that
 * no peer makes it overflow. Made by the keeper, kept as long as the device.
 */
struct rsk_vcq {
	struct rsk_vcq *next;
	struct ibv_cq *cq; /* owned */
	uint32_t rails;	   /* keeper: whose completions go here */
	bool disarmed;	   /* dev->lock: its event was read */
};

/*
 * A device. Made when the first rail uses it, kept until close, since path threads walk the list; of one that is gone
 * nothing else is kept. Nothing that a peer can name (memory) or use up (receives) is shared by rails: domain.c.
 */
struct rsk_vdev {
	struct rsk_vdev *next;
	struct rsk_verbs *v;
	struct ibv_context *ctx; /* librdmacm's; NULL: it is gone */
	struct ibv_comp_channel *recv_channel, *send_channel;
	uint32_t recvs;	   /* of each receive queue */
	uint32_t cq_rails; /* of each of @cqs */
	uint32_t depth, reads;
	bool atomics;	    /* it can; among those that come by it */
	_Atomic(bool) dead; /* gone: set under the lock, by the keeper */
	struct rsk_source async, send;

	pthread_mutex_t lock;
	struct rsk_vcq *cqs; /* changed by the keeper, under the lock */
	uint32_t cqs_n;
	struct rsk_vcq *turn;	      /* the one that is taken from first, next time */
	struct rsk_verbs_rail *rails; /* by qp_num */
};

/* A stream's outgoing side, and its registrations. */
struct rsk_vstream {
	struct rsk_note note;
	_Atomic(uint8_t) way; /* enum rsk_verbs_way, as it is wanted */
	uint8_t due;	      /* RSK_WAKE_* that were asked for and not sent */
	bool pending;	      /* a due() has not been done */
	bool arrival;	      /* somebody waits until all of it has arrived */
	uint64_t last;	      /* send queue's index of its newest work request */
	bool fresh;	      /* in the rail's list of those */
	uint8_t listed;	      /* enum rsk_list, + 1; 0: in none */
	uint32_t next;	      /* in that list */
	uint32_t rkey;
	uint64_t indirect_to; /* position after its newest entry in the indirect buffer */
	uint64_t used;	      /* send queue's index after which its window is not read any more */
	struct ibv_mr *ring;  /* keeper: ours */
	struct ibv_mr *window;
};

struct rsk_vgroup {
	uint32_t ctl_rkey; /* the peer's */
	bool ctl_known;
	struct ibv_mr *ctl; /* keeper: ours */
	struct rsk_vstream stream[RSK_VERBS_GROUP];
};

/* Streams that have to wait, first come, first served. */
enum rsk_list {
	RSK_LIST_QUEUE,
	RSK_LIST_ROOM,
	RSK_LISTS
};
struct rsk_sids {
	uint32_t first, last, count;
};

/* Of a locked access: the record as it was then, what is staged, what the swap found. */
struct rsk_vlocked_buffer {
	_Alignas(64) uint8_t image[RSK_LOCKED_BYTES(RSK_LOCKED_HOLDERS)];
	struct rsk_locked_slot stage;
	uint64_t old;
};

/* Memory of a rail that is registered with it. */
struct rsk_vbuffers {
	uint8_t in[RSK_INDIRECT_BYTES]; /* the peer writes */
	uint8_t out[RSK_INDIRECT_BYTES];
	uint8_t read[RSK_VERBS_READS][RSK_VERBS_READ_BYTES];
};

struct rsk_vread {
	enum {
		RSK_READ_FREE,
		RSK_READ_POSTED,
		RSK_READ_DONE
	} state;
	int status;
	uint64_t token;
	void *dst;
	uint32_t len;
	bool atomic;
	bool missing;	      /* done, and no answer is there */
	uint32_t rkey, asked; /* a READ's, so that it can be asked for again; how often it was */
	uint64_t from;
	uint64_t pattern; /* lies where the answer will */
};

/* What goes by a rail, and how fast; from the first flow() on. Bytes count from the queue pair's beginning. */
struct rsk_meter {
	bool on;
	uint64_t noted;	    /* bytes of rings that were noted and not posted */
	uint64_t posted;    /* bytes */
	uint64_t signalled; /* of them, up to the newest work request whose completion is told */
	uint64_t done;
	uint64_t at[RSK_VERBS_DEPTH]; /* posted, behind the work request of that index modulo this */
	uint64_t mark_ns,
		mark; /* since when it is busy, and what was done by then; 0: it was not */
	uint64_t rate, rate_ns; /* bytes a second, and when that was measured */
};

/* A locked access under way. Its states are those of a READ. */
struct rsk_vlocked {
	uint32_t state;
	int status;
	uint64_t token;
	struct rsk_locked *op; /* borrowed */
	uint32_t rkey;
	bool swaps;  /* the chain has a swap, to @next */
	bool unsure; /* it is not known whether one was done */
	struct rsk_locked_next next;
};

/* Registrations that may go when the send queue has come to @used. */
struct rsk_vgarbage {
	struct rsk_vgarbage *next;
	struct ibv_mr *mr;
	uint64_t used;
};

enum rsk_vstate {
	RSK_RAIL_IDLE,
	RSK_RAIL_CONNECTING,
	RSK_RAIL_UP
};

struct rsk_verbs_rail {
	struct rsk_verbs *v;
	struct rsk_seg *seg;   /* borrowed */
	struct rsk_rail *rail; /* borrowed: what is put goes by it */
	void *ctx;
	struct rsk_verbs_rail *prev, *next; /* keeper: v->rails */

	enum rsk_vstate state;	 /* keeper */
	struct rdma_cm_id *id;	 /* keeper */
	struct rsk_vdev *dev;	 /* keeper: where its registrations are; stays after a break */
	struct ibv_pd *pd;	 /* keeper: theirs, and the queue pair's; of no other rail */
	struct ibv_srq *srq;	 /* of one queue pair; posted to under dev->lock */
	struct rsk_vcq *recv_cq; /* keeper */
	uint8_t hello[RSK_VERBS_PRIVATE_BYTES];
	uint8_t hello_bytes;
	char device[80];
	uint32_t mtu_bytes;
	struct rsk_vbuffers *buf;
	struct ibv_mr *in_mr, *out_mr;
	/* [RSK_VERBS_LOCKED], and registered: once locked access was asked for. Written under the lock. */
	struct rsk_vlocked_buffer *locked_buf;
	struct ibv_mr *locked_mr;
	struct rsk_vgarbage *garbage; /* keeper */

	UT_hash_handle hh; /* dev->lock */
	uint32_t qp_num;
	uint32_t recv_owed; /* dev->lock: receives that were used up, and not posted again */
	/* Threads that hold completions of it; counted up under dev->lock only while it is in dev->rails. */
	_Atomic(uint32_t) in_poll;
	_Atomic(int) err; /* the first; the keeper breaks it */

	_Atomic(uint32_t)
		in_avail; /* units that have come and were not moved; added under dev->lock */
	pthread_mutex_t in_lock;
	uint64_t in_at;	  /* position of the next entry */
	uint32_t in_owed; /* units to give back */
	struct rsk_words_in heard;
	uint32_t hears; /* keeper: so many words of it may still be told in this turn */

	pthread_mutex_t lock;
	bool live; /* up, and nothing has failed: may be posted to */
	struct ibv_qp *qp;
	struct ibv_cq *cq; /* of its sends */
	uint32_t depth, max_inline;
	uint64_t posted, done, signalled; /* indexes of work requests; newest that is signalled */
	struct rsk_meter meter;
	bool armed_all;
	bool peer_known;
	struct rsk_verbs_end peer;
	struct rsk_sids list[RSK_LISTS];
	uint32_t fresh[RSK_VERBS_FRESH]; /* streams for which something was noted since the last due() */
	uint32_t arrivals;		 /* streams that wait so */
	bool in_work;		    /* the keeper flushes, and looks who waits for room after it */
	_Atomic(uint32_t) fresh_n;  /* read without the lock: none means none of the caller's own */
	uint64_t out_at, out_taken; /* positions in the peer's indirect buffer */
	uint32_t give_back;	    /* units to give back that could not be said */
	bool ask_back;
	struct rsk_words_out said;
	struct rsk_vread read[RSK_VERBS_READS];
	uint64_t patterns; /* answer.h */
	struct rsk_vlocked locked[RSK_VERBS_LOCKED];
	uint32_t groups;
	_Atomic(struct rsk_vgroup *)
		group[]; /* made by the keeper, never taken away while the rail is */
};

struct rsk_verbs {
	struct rsk_verbs_host host;
	int work_fd, news_fd;
	int more_fd; /* an eventfd in news_fd: completions were left by a thread that had enough */
	int kernel_fd;
	_Atomic(bool) more;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener[2];
	struct rsk_source cm, kernel, room;
	bool room_watched, wants_room, wants_words; /* keeper */
	_Atomic(bool) room_heard;	 /* false: who has to wait for room calls the keeper */
	_Atomic(struct rsk_vdev *) devs; /* grows at its head */
	struct rsk_verbs_rail *rails;	 /* keeper */
	uint64_t reg_limit;		 /* keeper */
	uint32_t fail_reg, fail_dice;	 /* keeper: RSK_VERBS_FAIL_REG */
	uint8_t ack_timeout;		 /* RSK_VERBS_ACK_TIMEOUT; 0: none */
	struct rsk_verbs_counters counters;
};

#define RSK_COUNT(v, counter, n)                                                                   \
	atomic_fetch_add_explicit(&(v)->counters.counter, (n), memory_order_relaxed)

/* A function of kind (path): not a cancellation point, errno as it was. */
struct rsk_quiet {
	int errno_was, cancel_was;
};
static inline struct rsk_quiet rsk_quiet_begin(void)
{
	struct rsk_quiet q = { .errno_was = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &q.cancel_was);
	return q;
}

static inline void rsk_quiet_end(const struct rsk_quiet *q)
{
	int was;

	pthread_setcancelstate(q->cancel_was, &was);
	errno = q->errno_was;
}

/* ---- state.c ---- */
/* Where in the peer's segment something lies. */
struct rsk_spot {
	uint32_t sid;
	uint32_t off; /* in its ring, or in its control block */
	bool ring;
};
/* 0; -EINVAL: it is not inside one stream's ring or control block. */
int rsk_spot_find(const struct rsk_seg *seg, uint64_t off, size_t len, struct rsk_spot *at);
/* What opens that place of the peer's; the rail's lock is held. 0 or -errno. */
int rsk_spot_key(struct rsk_verbs_rail *r, const struct rsk_spot *at, uint32_t *rkey);
/* Any thread: it failed. The keeper is called, and will break it. */
void rsk_rail_fail(struct rsk_verbs_rail *r, int err);
struct rsk_vgroup *rsk_rail_group(struct rsk_verbs_rail *r,
				  uint32_t group); /* keeper; made if need be */
static inline struct rsk_vgroup *rsk_rail_has_group(const struct rsk_verbs_rail *r, uint32_t group)
{
	return group < r->groups ? atomic_load_explicit(&r->group[group], memory_order_acquire) :
				   NULL;
}

/* The stream's state, or NULL: nothing is known of its group. */
static inline struct rsk_vstream *rsk_rail_stream(const struct rsk_verbs_rail *r, uint32_t sid)
{
	struct rsk_vgroup *g = rsk_rail_has_group(r, sid / RSK_VERBS_GROUP);

	return g ? &g->stream[sid % RSK_VERBS_GROUP] : NULL;
}

/* ---- dev.c ---- */
struct rsk_vdev *rsk_vdev_get(struct rsk_verbs *v, struct ibv_context *ctx, int *rc);
struct rsk_vdev *rsk_vdev_of(const struct rsk_verbs *v, const struct ibv_context *ctx);
void rsk_vdev_free_all(struct rsk_verbs *v);
/* No rail is on it any more: it is dead, and nothing of it is held. */
void rsk_vdev_drop(struct rsk_vdev *d);
/* Completions of sends, or errors: their rails are looked at. */
void rsk_vdev_sends(struct rsk_vdev *d);

/* ---- domain.c ---- */
/* A protection domain of its own on r->dev, if it has none there. 0 or -errno: then nothing is registered. */
int rsk_domain_open(struct rsk_verbs_rail *r);
void rsk_domain_close(struct rsk_verbs_rail *r); /* nothing of it is registered any more */
/* Receives of its next queue pair, and a place for their completions. 0, or -errno and there are none. */
int rsk_recvs_open(struct rsk_verbs_rail *r);
void rsk_recvs_close(struct rsk_verbs_rail *r); /* that queue pair is no more */
void rsk_recvs_low(struct rsk_verbs_rail *r);	/* the device has said so */
void rsk_recvs_drop_cqs(struct rsk_vdev *d);	/* no rail is on it */

/* ---- contexts.c ---- */
/* Moves *fd (a field of one of libibverbs' structs), non-blocking. 0, or -errno and *fd is -1. */
int rsk_verbs_move_fd(struct rsk_verbs *v, int *fd);
/* The same of @fd, a new one or -errno, which is owned: to *to. */
int rsk_verbs_own_fd(struct rsk_verbs *v, int fd, int *to);
int rsk_verbs_watch(struct rsk_verbs *v, int fd, struct rsk_source *source);
int rsk_context_own(struct rsk_verbs *v, struct ibv_context *ctx); /* 0 or -errno; again: 0 */
/*
 * Its descriptors are closed: the kernel does not let go of a device as long as somebody has it open (rxe), and
 * librdmacm closes it only when it looks for another one: then it finds that there is nothing left to be closed.
 */
void rsk_context_leave(struct rsk_verbs *v, struct ibv_context *ctx);
void rsk_contexts_removed(struct rsk_verbs *v, const char *name); /* the same, by its name */
void rsk_contexts_forked(void);

/* ---- forked.c ---- */
void rsk_verbs_forked(struct rsk_verbs *v);
/* Of a child: closed, so that no destructor of librdmacm's closes what has that number by then. */
static inline void rsk_drop_fd(int *fd)
{
	if (*fd >= 0)
		rsk_sys_close(*fd);
	*fd = -1;
}

/* ---- poll.c ---- */
int rsk_recvs_post(struct rsk_verbs_rail *r, uint32_t n); /* dev->lock, or nobody else has it yet */
void rsk_vdev_add(struct rsk_vdev *d, struct rsk_verbs_rail *r);
/* Nobody holds a completion of it when it returns, and none will come; what has come is in its place. */
void rsk_vdev_remove(struct rsk_vdev *d, struct rsk_verbs_rail *r);
int rsk_vdev_poll(struct rsk_vdev *d, bool events);
/* Takes all that is in the queues by now. */
void rsk_vdev_drain(struct rsk_vdev *d);
int rsk_verbs_poll(struct rsk_verbs *v, bool events);
/* Keeper: one word that has come is told. False: there is none, or none may be now. @r may be gone afterwards. */
bool rsk_rail_hear(struct rsk_verbs_rail *r);

/* ---- events.c ---- */
/*
 * It has been taken away, or is broken for good: its rails go down with -ENODEV, and nothing of it is held any more,
 * so that the kernel can let it go.
 */
void rsk_vdev_gone(struct rsk_vdev *d);
void rsk_vdev_async(struct rsk_vdev *d);
/* Its uevents are a source; without them somebody has to try again. */
void rsk_verbs_watch_kernel(struct rsk_verbs *v);
/* What the kernel has said of devices so far. */
void rsk_verbs_hear_kernel(struct rsk_verbs *v);

/* ---- cm.c ---- */
void rsk_cm_events(struct rsk_verbs *v);
int rsk_cm_listen(struct rsk_verbs *v, uint16_t port);
void rsk_cm_deaf(struct rsk_verbs *v);
void rsk_cm_from(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from);
int rsk_cm_has_address(struct rsk_verbs *v, const struct rsk_verbs_addr *addr);
int rsk_cm_connect(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
		   const struct rsk_verbs_addr *to, const void *data, size_t bytes);

/* ---- mr.c ---- */
struct ibv_mr *rsk_mr_new(struct rsk_verbs_rail *r, void *at, size_t bytes, int access, int *rc);
void rsk_mr_free(struct rsk_verbs *v, struct ibv_mr **mr);
void rsk_mr_drop_all(struct rsk_verbs_rail *r);
void rsk_mr_garbage(struct rsk_verbs_rail *r, uint64_t done);
int rsk_mr_buffers(struct rsk_verbs_rail *r);
int rsk_mr_locked(struct rsk_verbs_rail *r);
int rsk_mr_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey);
int rsk_mr_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t *rkey);
void rsk_mr_unreg_ring(struct rsk_verbs_rail *r, uint32_t sid);

/* ---- rail.c (keeper) ---- */
struct rsk_verbs_rail *rsk_rail_new(struct rsk_verbs *v, struct rsk_seg *seg, struct rsk_rail *rail,
				    void *ctx);
void rsk_rail_free(struct rsk_verbs_rail *r);
/* Queue pair on r->id, whose device is known. 0 or -errno. */
int rsk_rail_make_qp(struct rsk_verbs_rail *r);
void rsk_rail_up(struct rsk_verbs_rail *r);
void rsk_rail_break(struct rsk_verbs_rail *r);
/* Break it and say so; @r may be gone afterwards. */
void rsk_rail_down(struct rsk_verbs_rail *r, int err);
/* All that are on the device are down, and keep nothing that is registered there. */
void rsk_rails_leave(struct rsk_vdev *d);
int rsk_rail_end(struct rsk_verbs_rail *r, struct rsk_verbs_end *out);
int rsk_rail_set_peer(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer);
int rsk_rail_set_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey);
int rsk_rail_set_ring(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way,
		      uint32_t rkey);
int rsk_rail_ring_way(const struct rsk_verbs_rail *r, uint32_t sid);
void rsk_rail_probe(struct rsk_verbs_rail *r);
int rsk_rail_settle(struct rsk_verbs_rail *r, uint64_t timeout_ns);
int rsk_rail_say(struct rsk_verbs_rail *r, const void *word, size_t bytes);

/* ---- places.c ---- */
uint32_t rsk_verbs_addresses(struct rsk_verbs *v, struct rsk_verbs_place *out, uint32_t most);

/* ---- meter.c; with r->lock held ---- */
void rsk_meter_reset(struct rsk_verbs_rail *r);
void rsk_meter_posted(struct rsk_verbs_rail *r, uint64_t index, uint64_t bytes);
bool rsk_meter_due(const struct rsk_verbs_rail *r); /* the next work request is to be signalled */
void rsk_meter_done(struct rsk_verbs_rail *r);
/* What is under way, and the rate: of *flow, those two. */
void rsk_meter_flow(struct rsk_verbs_rail *r, struct rsk_flow *flow);

/* ---- put.c: the fabric's ops; flush.c: what they noted is posted ---- */
extern const struct rsk_fabric_ops rsk_verbs_ops;

/* ---- fetch.c: of those, what asks for something ---- */
int rsk_verbs_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);
int rsk_verbs_atomic(struct rsk_rail *rail, uint64_t off, const struct rsk_atomic *op,
		     uint64_t *old, uint64_t token);
int rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);

/* ---- locked.c: locked access; the last two with the rail's lock held ---- */
int rsk_verbs_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
/* Those that are done; the others go on. */
int rsk_locked_fetched(struct rsk_verbs_rail *r, struct rsk_completion *done, int max);
/* The rail has broken: nobody knows what has become of them. */
void rsk_locked_forget(struct rsk_verbs_rail *r);

/* The following with r->lock held. */
void rsk_flush_stream(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s);
/* Everything that has to wait no longer. */
void rsk_flush_lists(struct rsk_verbs_rail *r);
void rsk_list_add(struct rsk_verbs_rail *r, enum rsk_list which, uint32_t sid,
		  struct rsk_vstream *s);

/* ---- post.c: the send queue; with r->lock held ---- */
#define RSK_VERBS_TOLD 64u
/* Streams whose waiting is over: their ids, at most RSK_VERBS_TOLD of them at once; for news() without the lock. */
uint32_t rsk_flush_arrivals(struct rsk_verbs_rail *r, uint32_t sid[RSK_VERBS_TOLD]);
/* Has all of it arrived? Else it is waited for. */
bool rsk_flush_arrived(struct rsk_verbs_rail *r, struct rsk_vstream *s);

struct rsk_batch {
	uint32_t n;
	struct ibv_send_wr wr[RSK_VERBS_BATCH];
	struct ibv_sge sge[RSK_VERBS_BATCH];
};
/* Places in the send queue, after a look at what has been done. One is kept for probes. */
uint32_t rsk_post_room(struct rsk_verbs_rail *r, uint32_t wanted);
/* Add a write; the batch is posted first if it is full. @lkey counts only if it is not sent inline. */
void rsk_post_add(struct rsk_verbs_rail *r, struct rsk_batch *b, const void *from, uint32_t bytes,
		  uint32_t lkey, uint64_t to, uint32_t rkey);
/* Post it, the last one with @imm; if there is none, one of no bytes. 0 or -errno: the rail has failed. */
int rsk_post_last(struct rsk_verbs_rail *r, struct rsk_batch *b, uint32_t imm);
/* A signalled write of no bytes, to know that all before it has arrived. */
int rsk_post_fence(struct rsk_verbs_rail *r);
int rsk_post_read(struct rsk_verbs_rail *r, uint32_t slot, uint64_t from, uint32_t rkey);
int rsk_post_atomic(struct rsk_verbs_rail *r, uint32_t slot, uint64_t at, uint32_t rkey,
		    const struct rsk_atomic *op);
/* A chain of a locked access, whose last one tells that it is done. */
int rsk_post_locked(struct rsk_verbs_rail *r, uint32_t slot, struct ibv_send_wr *first);
void rsk_post_reap(struct rsk_verbs_rail *r);
/* The next completion is an event, whatever it is; then one more look. */
void rsk_post_arm(struct rsk_verbs_rail *r);

#endif
