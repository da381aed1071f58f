/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inner.h - the types and functions that the files of librsock-verbs.so share. The interface to the
 * library is fabric/verbs.h.
 *
 * Calls go from the bottom of this list to the top, never back:
 *	cm_lib.c					cm_lib.h: librdmacm
 *	state.c, rate_estimator.c, post.c, flush.c	post.h: a rail's first error, and sending
 *	fetch.c, put.c					ops.h: the operations that streams call
 *	poll.c, domain.c, contexts.c, dev.c		dev.h: receiving, and devices
 *	mr.c, rail.c					rail.h: rails
 *	events.c, device_addrs.c, cm.c, forked.c, module.c
 *							begin and end of rails; the module's table
 *
 * Locks, innermost last. None is held while host->news() or another callback runs:
 *	vdev.lock	receive CQs, their channel, the table of queue pairs, receives to repost
 *	rail.in_lock	the indirect buffer that the peer fills, and the moving of its content
 *	rail.lock	all sending: pending writes, lists, send queue, send CQ, the peer's keys
 * Only the progress thread touches a field that is marked "progress thread".
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
#include "cm_lib.h"
#include "indirect.h"
#include "pending_writes.h"
#include "verbs.h"
#include "control_msgs.h"

_Static_assert(RSK_INDIRECT_BYTES == RSK_VERBS_INDIRECT_BYTES, "one buffer");
_Static_assert(RSK_INDIRECT_WORD_BYTES == RSK_VERBS_MSG_BYTES, "a word is a word");

/* Number of streams whose control blocks are registered at once */
#define RSK_VERBS_GROUP RSK_SEG_REACH
#define RSK_VERBS_DEPTH 256u /* work requests in a send queue */
#define RSK_VERBS_RECVS 512u /* receives in the receive queue of one queue pair */
/* Number of queue pairs whose receives complete in one completion queue */
#define RSK_VERBS_CQ_RAILS 4u
#define RSK_VERBS_INLINE 220u
#define RSK_VERBS_INLINE_LEAST ((uint32_t)(2 * sizeof(struct rsk_control_word)))
#define RSK_VERBS_WRITE_BYTES (256u << 10) /* maximum of one work request */
#define RSK_VERBS_READS 16u		   /* READs in flight */
#define RSK_VERBS_READ_BYTES RSK_MAILBOX_BYTES
#define RSK_VERBS_FRESH 16u

/* The data of an epoll event of work_fd. */
struct rsk_source {
	enum rsk_source_kind {
		RSK_SOURCE_CM,	   /* events of rdma_cm */
		RSK_SOURCE_KERNEL, /* the kernel's uevents about devices */
		RSK_SOURCE_ASYNC,
		RSK_SOURCE_SEND,
		/*
		 * Receive completions, while something waits for room at the peer or a control
		 * message is awaited
		 */
		RSK_SOURCE_ROOM
	} kind;
	struct rsk_vdev *dev; /* for RSK_SOURCE_ASYNC and RSK_SOURCE_SEND */
};

/*
 * A completion queue for the receives of some queue pairs. It has space for every receive that they
 * can have posted, so that no peer makes it overflow. The progress thread creates it; it lives as
 * long as the device.
 */
struct rsk_vcq {
	struct rsk_vcq *next;
	struct ibv_cq *cq; /* owned */
	/* Progress thread: number of rails whose receives complete here */
	uint32_t rails;
	bool disarmed; /* dev->lock: its event was read */
	/* dev->lock: events that were read and not acknowledged yet, which takes a lock */
	uint32_t unacked;
	bool broken; /* progress thread: the device has given it up, no rail gets it any more */
};

/*
 * A device. It is created when the first rail uses it, and stays in the list until close because
 * path threads walk the list; when the device has gone, everything else of it is freed. Rails share
 * nothing that a peer can name (memory) or use up (receives): see domain.c.
 */
struct rsk_vdev {
	struct rsk_vdev *next;
	struct rsk_verbs *v;
	struct ibv_context *ctx; /* owned by librdmacm; NULL: the device has gone */
	struct ibv_comp_channel *recv_channel, *send_channel;
	uint32_t recvs;	   /* size of each receive queue */
	uint32_t cq_rails; /* maximum of rails for each of @cqs */
	uint32_t depth;
	/* READs in flight on a queue pair: of the peer's, of ours */
	uint32_t responder_resources, initiator_depth;
	/* The device has gone; set by the progress thread under the lock */
	_Atomic(bool) dead;
	struct rsk_source async, send;

	pthread_mutex_t lock;
	/* Changed by the progress thread, under the lock */
	struct rsk_vcq *cqs;
	uint32_t cqs_n;
	struct rsk_vcq *turn;	      /* the completion queue that is polled first next time */
	struct rsk_verbs_rail *rails; /* hash table by qp_num */
	struct rsk_verbs_rail *found; /* in it: of the newest completion; NULL: none */
};

/*
 * Registrations of the beginning of a ring, each wider than the one before; progress thread. A
 * narrower one stays: what was posted with its key may still be under way.
 */
struct rsk_vwidths {
	struct ibv_mr *mr[RSK_SEG_WIDTHS]; /* owned; NULL from the first that is not there */
};

/* The outgoing side of a stream, and its registrations. */
struct rsk_vstream {
	struct rsk_pending_writes pending_writes;
	_Atomic(uint8_t) way; /* the requested enum rsk_verbs_way */
	uint8_t due;	      /* RSK_WAKE_* bits that were requested and not sent yet */
	bool pending;	      /* a due() was not completed */
	bool arrival;	      /* the stream waits until all of it has arrived */
	uint64_t last;	      /* send queue index of its newest work request */
	bool fresh;	      /* it is in the rail's list of fresh streams */
	uint8_t listed;	      /* enum rsk_list + 1; 0: in no list */
	uint32_t next;	      /* next stream in that list */
	uint32_t rkey, lkey;  /* of the peer's ring, and of its image in the window */
	/* Position after the stream's newest entry in the indirect buffer */
	uint64_t indirect_to;
	struct rsk_vwidths ring, window; /* of our ring; of the window's */
};

struct rsk_vgroup {
	uint32_t ctl_rkey; /* key of the peer's control blocks */
	bool ctl_known;
	struct ibv_mr *ctl; /* progress thread: registration of our control blocks */
	struct rsk_vstream stream[RSK_VERBS_GROUP];
};

/*
 * The lists of streams that wait, in FIFO order: for places in the send queue, and for room in the
 * peer's indirect buffer.
 */
enum rsk_list {
	RSK_LIST_QUEUE,
	RSK_LIST_ROOM,
	RSK_LISTS
};
struct rsk_sids {
	uint32_t first, last, count;
};

/* Memory of a rail that is registered with its device. */
struct rsk_vbuffers {
	uint8_t in[RSK_INDIRECT_BYTES]; /* written by the peer */
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
	bool missing; /* the request completed without a response */
	/* The key, for repeating it, and how often it was repeated */
	uint32_t rkey, asked;
	uint64_t from;
	uint64_t pattern; /* the completion canary in the response buffer */
};

/*
 * Rate estimator: what a rail sends, and how fast, from the first flow() on. Bytes count from the
 * creation of the queue pair.
 */
struct rsk_rate_estimator {
	bool on;
	uint64_t noted;	 /* pending bytes of rings, not posted yet */
	uint64_t posted; /* bytes posted */
	/* Value of @posted at the newest signalled work request */
	uint64_t signalled;
	uint64_t done;
	/* Value of @posted after the work request of that index, modulo RSK_VERBS_DEPTH */
	uint64_t at[RSK_VERBS_DEPTH];
	/* Start of the current busy period (0: idle) and the value of @done then */
	uint64_t mark_ns, mark;
	uint64_t rate, rate_ns; /* bytes per second, and when it was measured */
};

enum rsk_vstate {
	RSK_RAIL_IDLE,
	RSK_RAIL_CONNECTING,
	RSK_RAIL_UP
};

struct rsk_verbs_rail {
	struct rsk_verbs *v;
	struct rsk_seg *seg;   /* borrowed */
	struct rsk_rail *rail; /* borrowed; the fabric's view of this rail */
	void *ctx;
	struct rsk_verbs_rail *prev, *next; /* progress thread: list v->rails */

	enum rsk_vstate state; /* progress thread */
	struct rdma_cm_id *id; /* progress thread */
	/* Progress thread: the device of its registrations; kept when the rail breaks */
	struct rsk_vdev *dev;
	/*
	 * Progress thread: protection domain of the registrations and the queue pair; not shared
	 * with other rails
	 */
	struct ibv_pd *pd;
	struct ibv_srq *srq;	 /* of one queue pair; posted to under dev->lock */
	struct rsk_vcq *recv_cq; /* progress thread */
	uint8_t hello[RSK_VERBS_PRIVATE_BYTES];
	uint8_t hello_bytes;
	uint8_t dscp; /* progress thread */
	char device[80];
	uint32_t mtu_bytes;
	struct rsk_vbuffers *buf;
	struct ibv_mr *in_mr, *out_mr;

	UT_hash_handle hh; /* dev->lock */
	uint32_t qp_num;
	/* dev->lock: receives that are used up and not posted again: at most an eighth, in time */
	uint32_t recv_owed;
	/*
	 * Number of threads that hold completions of this rail. It is incremented under dev->lock,
	 * and only while the rail is in dev->rails.
	 */
	_Atomic(uint32_t) in_poll;
	/* The first error; the progress thread then breaks the rail */
	_Atomic(int) err;

	/* Units that have arrived and were not moved yet; added to under dev->lock */
	_Atomic(uint32_t) in_avail;
	pthread_mutex_t in_lock;
	uint64_t in_at;	  /* position of the next entry */
	uint32_t in_owed; /* units to give back to the peer */
	struct rsk_control_msgs_in heard;
	/* Progress thread: number of control messages that may still be passed on in this turn */
	uint32_t hears;

	pthread_mutex_t lock;
	bool live; /* it is up and has not failed: requests may be posted */
	struct ibv_qp *qp;
	struct ibv_cq *cq; /* completions of its sends */
	uint32_t depth, max_inline;
	/* Indexes of work requests: the newest posted, done and signalled one */
	uint64_t posted, done, signalled;
	struct rsk_rate_estimator rate_estimator;
	bool armed_all;
	bool peer_known;
	struct rsk_verbs_end peer;
	struct rsk_sids list[RSK_LISTS];
	/* Streams with writes that became pending since the last due() */
	uint32_t fresh[RSK_VERBS_FRESH];
	uint32_t arrivals; /* number of streams that wait for arrival */
	/* The progress thread is flushing, and checks afterwards which streams wait for room */
	bool in_work;
	/* May be read without the lock: if it is 0 the caller's own stream has no pending write */
	_Atomic(uint32_t) fresh_n;
	uint64_t out_at, out_taken; /* positions in the peer's indirect buffer */
	uint32_t give_back;	    /* units to give back whose message could not be posted yet */
	bool ask_back;
	struct rsk_control_msgs_out said;
	struct rsk_vread read[RSK_VERBS_READS];
	uint64_t patterns; /* state of rsk_splitmix_next() */
	uint32_t groups;
	/* Allocated by the progress thread, freed with the rail */
	_Atomic(struct rsk_vgroup *) group[];
};

struct rsk_verbs {
	struct rsk_verbs_host host;
	int work_fd, news_fd;
	/* Eventfd in news_fd: a thread stopped at its limit and left completions behind */
	int more_fd;
	int kernel_fd;
	_Atomic(bool) more;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener[2];
	struct rsk_source cm, kernel, room;
	bool room_watched, wants_room, wants_news; /* progress thread */
	/* If false, a thread whose stream has to wait for room wakes the progress thread */
	_Atomic(bool) room_heard;
	_Atomic(struct rsk_vdev *) devs; /* prepended to, never removed from */
	struct rsk_verbs_rail *rails;	 /* progress thread */
	uint64_t reg_limit;		 /* progress thread */
	uint64_t fail_dice;		 /* progress thread: state of rsk_splitmix_next() */
	uint32_t fail_reg;		 /* progress thread: RSK_VERBS_FAIL_REG */
	uint8_t ack_timeout;		 /* RSK_VERBS_ACK_TIMEOUT; 0: not set */
	uint64_t registered;		 /* progress thread: bytes */
};

/* Adds @n to a counter of the process (RSK_STATS_VERBS). */
#define RSK_COUNT(v, counter, n)                                                                   \
	__atomic_fetch_add(&(v)->host.counts[RSK_STATS_VERBS_##counter], (n), __ATOMIC_RELAXED)

/* Wraps a function of kind (path): no cancellation point, errno unchanged. */
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
/* A remote region: which part of the peer's segment an offset names. */
struct rsk_remote_region {
	uint32_t sid;
	uint32_t off; /* in its ring or in its control block */
	bool ring;
};
/* Returns 0, or -EINVAL if the region is not inside the ring or control block of one stream. */
int rsk_remote_region_find(const struct rsk_seg *seg, uint64_t off, size_t len,
			   struct rsk_remote_region *at);
/* Stores the remote key of that region. The rail's lock is held. Returns 0 or -errno. */
int rsk_remote_region_key(struct rsk_verbs_rail *r, const struct rsk_remote_region *at,
			  uint32_t *rkey);
/*
 * Any thread: records the rail's first error and wakes the progress thread, which breaks the rail.
 */
void rsk_rail_fail(struct rsk_verbs_rail *r, int err);
/* Progress thread: returns the group, allocated if needed. NULL: no such group, or no memory. */
struct rsk_vgroup *rsk_rail_group(struct rsk_verbs_rail *r, uint32_t group);

static inline struct rsk_vgroup *rsk_rail_has_group(const struct rsk_verbs_rail *r, uint32_t group)
{
	return group < r->groups ? atomic_load_explicit(&r->group[group], memory_order_acquire) :
				   NULL;
}

/* Returns the stream's state, or NULL if its group was not allocated. */
static inline struct rsk_vstream *rsk_rail_stream(const struct rsk_verbs_rail *r, uint32_t sid)
{
	struct rsk_vgroup *g = rsk_rail_has_group(r, sid / RSK_VERBS_GROUP);

	return g ? &g->stream[sid % RSK_VERBS_GROUP] : NULL;
}

#endif
