/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inner.h - what the files of librsock-verbs.so share (what the library knows of it: fabric/verbs.h).
 *
 * Calls go one way. From the bottom:
 *	state.c, rate_estimator.c, post.c, flush.c		post.h: the first error of a rail, and what goes out by it
 *	locked.c, fetch.c, put.c			ops.h: what streams call
 *	poll.c, domain.c, contexts.c, dev.c		dev.h: what comes, and devices
 *	mr.c, rail.c					rail.h: rails
 *	events.c, device_addrs.c, cm.c, forked.c, module.c	what ends rails, and begins them; the module's table
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

#include "canary.h"
#include "indirect.h"
#include "locked.h"
#include "pending_writes.h"
#include "verbs.h"
#include "control_msgs.h"

_Static_assert(RSK_INDIRECT_BYTES == RSK_VERBS_INDIRECT_BYTES, "one buffer");
_Static_assert(RSK_INDIRECT_WORD_BYTES == RSK_VERBS_MSG_BYTES, "a word is a word");

#define RSK_VERBS_GROUP RSK_SEG_REACH /* streams whose control blocks are registered at once */
#define RSK_VERBS_DEPTH 256u	      /* work requests of a send queue */
#define RSK_VERBS_RECVS 512u	      /* of a queue pair's own receive queue */
#define RSK_VERBS_CQ_RAILS 4u /* queue pairs whose receives complete in one completion queue */
#define RSK_VERBS_INLINE 220u
#define RSK_VERBS_INLINE_LEAST ((uint32_t)(2 * sizeof(struct rsk_control_word)))
#define RSK_VERBS_WRITE_BYTES (256u << 10) /* of one work request */
#define RSK_VERBS_READS 16u		   /* at once */
#define RSK_VERBS_READ_BYTES RSK_MAILBOX_BYTES
#define RSK_VERBS_LOCKED 2u /* locked accesses at once */
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
	struct rsk_pending_writes pending_writes;
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
struct rsk_rate_estimator {
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
	struct rsk_vgarbage *deferred_mrs; /* keeper */

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
	struct rsk_control_msgs_in heard;
	uint32_t hears; /* keeper: so many words of it may still be told in this turn */

	pthread_mutex_t lock;
	bool live; /* up, and nothing has failed: may be posted to */
	struct ibv_qp *qp;
	struct ibv_cq *cq; /* of its sends */
	uint32_t depth, max_inline;
	uint64_t posted, done, signalled; /* indexes of work requests; newest that is signalled */
	struct rsk_rate_estimator rate_estimator;
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
	struct rsk_control_msgs_out said;
	struct rsk_vread read[RSK_VERBS_READS];
	uint64_t patterns; /* canary.h */
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
	bool room_watched, wants_room, wants_msgs; /* keeper */
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
struct rsk_remote_region {
	uint32_t sid;
	uint32_t off; /* in its ring, or in its control block */
	bool ring;
};
/* 0; -EINVAL: it is not inside one stream's ring or control block. */
int rsk_remote_region_find(const struct rsk_seg *seg, uint64_t off, size_t len,
			   struct rsk_remote_region *at);
/* What opens that place of the peer's; the rail's lock is held. 0 or -errno. */
int rsk_remote_region_key(struct rsk_verbs_rail *r, const struct rsk_remote_region *at,
			  uint32_t *rkey);
/* Any thread: it failed. The keeper is called, and will break it. */
void rsk_rail_fail(struct rsk_verbs_rail *r, int err);
/* Keeper: the group, made if need be. NULL: there is no such one, or no memory. */
struct rsk_vgroup *rsk_rail_group(struct rsk_verbs_rail *r, uint32_t group);

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

#endif
