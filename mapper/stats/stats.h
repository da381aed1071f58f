/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - the writing side of the statistics segment. Called by the library.
 *
 * No function fails towards its caller: if there is no memory, no descriptor or no free record, it
 * returns a private spare record that nothing reads, and the segment's header counts this.
 * Lock-free and signal-safe throughout; a process that is killed in the middle of a call costs at
 * most one record until it is swept. Other processes of the user may overwrite the segment; then
 * counts may be wrong, nothing else.
 */
#ifndef RSK_MAPPER_STATS_H
#define RSK_MAPPER_STATS_H

#include <rsock/stats.h>
#include <rsock/tuple.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Makes the segment unless there is one. place_fd as in registry.h, or NULL. Returns 0 or -errno;
 * after an error all other functions still work, but nothing is visible outside. Must not be called
 * by two threads at once.
 */
int rsk_stats_init(int (*place_fd)(int fd));

/* The segment's descriptor, -1: none.  The library keeps it from the application. */
int rsk_stats_fd(void);

/* The segment, for readers in this process; NULL: none. */
const struct rsk_stats_segment *rsk_stats_segment(void);

/*
 * This process's own record; never NULL.  The first call of a process claims it, so
 * call once after init and in the child after fork (rsk_stats_forked()).
 */
struct rsk_stats_process *rsk_stats_self(void);

/*
 * Called in the child after fork, which has no mapping of its parent's segment: it has none until
 * it calls rsk_stats_init(). The caller closes the descriptor.
 */
void rsk_stats_forked(void);

/* Unmaps; for tests.  The descriptor is closed if it still is the segment's. */
void rsk_stats_fini(void);

/*
 * Returns a record for a stream, state open, reason not-earned, both paths TCP. @tuple: what is
 * known of its addresses; NULL: nothing. Takes a record that was never used or that of a closed
 * stream, searching round in a window of a few records that moves on when half of them are open;
 * else one whose process has died. Never NULL.
 */
struct rsk_stats_stream *rsk_stats_stream_get(const struct rsk_tuple *tuple, uint64_t now_ns);

/*
 * Stores which end it is, and the stream's descriptor number, for readers that need addresses that
 * the record does not have yet.
 */
static inline void rsk_stats_stream_end(struct rsk_stats_stream *rec, bool connecting, int fd)
{
	__atomic_store_n(&rec->connecting, connecting, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->fd_plus_1, (uint32_t)fd + 1, __ATOMIC_RELAXED);
}

/* Marks the stream closed: its record stays readable until it is reused. */
void rsk_stats_stream_put(struct rsk_stats_stream *rec, uint64_t now_ns);

/* From now on the stream counts for this process (a child that goes on with it). */
void rsk_stats_stream_own(struct rsk_stats_stream *rec);

/*
 * Stores the addresses, if they were not known when the record was taken (a connect in progress).
 */
void rsk_stats_stream_name(struct rsk_stats_stream *rec, const struct rsk_tuple *tuple);

/* Records an event, and updates reason, paths and counters accordingly. */
void rsk_stats_event(struct rsk_stats_stream *rec, uint64_t now_ns, enum rsk_stats_event kind,
		     enum rsk_reason cause);

/* Stores what carries its ring (struct rsk_stats_stream), truncated to the field. */
void rsk_stats_set_fabric(struct rsk_stats_stream *rec, const char *fabric);

static inline void rsk_stats_set_reason(struct rsk_stats_stream *rec, enum rsk_reason why)
{
	__atomic_store_n(&rec->reason, (uint8_t)why, __ATOMIC_RELAXED);
}

/* The stream stays on TCP for good and no longer checks for operator requests. */
static inline void rsk_stats_looks_again(struct rsk_stats_stream *rec)
{
	__atomic_store_n(&rec->given_up, 0, __ATOMIC_RELAXED);
}

static inline void rsk_stats_given_up(struct rsk_stats_stream *rec)
{
	__atomic_store_n(&rec->given_up, 1, __ATOMIC_RELAXED);
}

static inline uint64_t rsk_stats_request(const struct rsk_stats_stream *rec)
{
	return __atomic_load_n(&rec->request, __ATOMIC_RELAXED);
}

/* Called after everything that the operator request changes in the record has been written. */
static inline void rsk_stats_applied(struct rsk_stats_stream *rec, uint64_t request)
{
	__atomic_store_n(&rec->applied, request, __ATOMIC_RELEASE);
}

/*
 * Adds to a counter of a record. The caller is the only writer of that counter at this time (it
 * holds the direction's lock); readers see whole values. A plain read and write, not a locked
 * instruction, because every send calls it.
 */
static inline void rsk_stats_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* The same for counters to which several threads may add at once (a process's counters). */
static inline void rsk_stats_add_shared(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* A new stream has the record: nothing of rails and of what has overtaken is known. */
static inline void rsk_stats_rails_reset(struct rsk_stats_stream *rec)
{
	__atomic_store_n(&rec->rails_lost, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->missing, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->missing_first, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->ahead.slots, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->ahead.overtook, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->ahead.gap, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->ahead.gap_lowest, 0, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < RSK_STATS_RAILS; i++)
		__atomic_store_n(&rec->tx_rail_bytes[i], 0, __ATOMIC_RELAXED);
}

/*
 * Appends this process's own figures as one line of JSON to a file (RSOCK_STAT_FILE). One write, so
 * that processes that end together do not mix their lines. Returns 0 or -errno.
 */
int rsk_stats_append(const char *path);

#endif /* RSK_MAPPER_STATS_H */
