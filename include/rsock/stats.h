/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - layout of the statistics segment: what a process reports about its streams.
 *
 * A memfd named "rsock-stat", sealed against resizing, shared by a process and its fork children,
 * found by the tool through /proc/<pid>/fd. The library writes it. Readers copy it and validate
 * everything: every word is data, none is a pointer or an offset. One word of a stream's record
 * goes the other way: the operator request. A change of the layout changes RSK_STATS_VERSION;
 * reason codes, paths, event kinds and operator requests are only appended.
 */
#ifndef RSOCK_STATS_H
#define RSOCK_STATS_H

#include <rsock/reason.h>
#include <rsock/version.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_STATS_NAME "rsock-stat"
#define RSK_STATS_MAGIC UINT64_C(0x544154534b434f53)
#define RSK_STATS_PROCESSES 64u
#define RSK_STATS_STREAMS 16384u
#define RSK_STATS_EVENTS 8u
#define RSK_STATS_FABRIC_BYTES 24u
#define RSK_STATS_RAILS 4u

enum rsk_path {
	RSK_PATH_TCP = 0,
	RSK_PATH_RING = 1,
	RSK_PATH_COUNT
};

/*
 * Registrations of rings between hosts, as the end that writes sees them
 * (stream/ring/ring_registration.h): which ones were asked for, and why a ring is written through
 * an indirect buffer.
 */
#define RSK_STATS_REGISTRATIONS(X)                                                                 \
	X(REQUESTED, requested, "requests for a ring, each the first of its kind")                 \
	X(VALID, valid, "rings that were registered at once")                                      \
	X(INVALID, invalid, "rings that could not be registered at first")                         \
	X(FIRST_TIMEOUT, first_timeout, "requests that were repeated, without an answer in time")  \
	X(SECOND_TIMEOUT, second_timeout, "rings whose second request had no answer in time")      \
	X(LATE_VALID, late_valid, "rings that were registered after data had gone indirectly")

enum rsk_stats_registration {
#define X(code, name, text) RSK_STATS_REG_##code,
	RSK_STATS_REGISTRATIONS(X)
#undef X
	RSK_STATS_REG_COUNT
};

/*
 * What the RDMA rails of a process have done, of all its links. While it lives, bytes registered
 * less those deregistered are what is registered now; one that has ended may have deregistered
 * less.
 */
#define RSK_STATS_VERBS(X)                                                                         \
	X(WRITES, writes, "RDMA WRITE work requests posted")                                       \
	X(WRITE_BYTES, write_bytes, "payload of RDMA WRITE work requests")                         \
	X(INLINED, inlined, "RDMA WRITE work requests with their payload inline")                  \
	X(WITH_IMM, with_imm, "RDMA WRITE work requests with immediate data")                      \
	X(READS, reads, "RDMA READ work requests posted")                                          \
	X(SIGNALLED, signalled, "work requests that asked for a completion")                       \
	X(COMPLETIONS, completions, "completions of receives")                                     \
	X(SEND_COMPLETIONS, send_completions, "completions of work requests")                      \
	X(EVENTS, events, "events of completion channels")                                         \
	X(HELD_BACK, held_back,                                                                    \
	  "flushes that left writes: a queue or an indirect buffer was full")                      \
	X(INDIRECT_SLOTS, indirect_slots, "ranges of rings sent through an indirect buffer")       \
	X(INDIRECT_BYTES, indirect_bytes, "bytes of rings sent through an indirect buffer")        \
	X(REGISTERED_BYTES, registered_bytes, "bytes of memory registered")                        \
	X(DEREGISTERED_BYTES, deregistered_bytes, "bytes of memory deregistered")                  \
	X(REGISTER_FAILED, register_failed, "registrations that failed")

enum rsk_stats_verbs {
#define X(code, name, text) RSK_STATS_VERBS_##code,
	RSK_STATS_VERBS(X)
#undef X
	RSK_STATS_VERBS_COUNT
};

enum rsk_stats_state {
	RSK_STATS_FREE = 0,
	RSK_STATS_OPEN = 1,
	RSK_STATS_CLOSED = 2,
};

/* Kinds of events of a stream; the cause is an enum rsk_reason. */
#define RSK_STATS_EVENT_KINDS(X)                                                                   \
	X(NONE, "none")                                                                            \
	X(OPENED, "opened")                                                                        \
	X(EARNED, "earned")                                                                        \
	X(REFUSED, "refused")                                                                      \
	X(PROMOTED_TX, "promoted-tx")                                                              \
	X(PROMOTED_RX, "promoted-rx")                                                              \
	X(DEMOTED_TX, "demoted-tx")                                                                \
	X(DEMOTED_RX, "demoted-rx")                                                                \
	X(RESUMED, "resumed")                                                                      \
	X(CLOSED, "closed")                                                                        \
	X(RELAYED, "relayed")

enum rsk_stats_event {
#define X(code, token) RSK_EVENT_##code,
	RSK_STATS_EVENT_KINDS(X)
#undef X
	RSK_EVENT_COUNT
};

/*
 * An event is one word, so that it is written and read as a whole: bits 63-16 microseconds of
 * CLOCK_MONOTONIC, 15-8 kind, 7-0 cause.
 */
static inline uint64_t rsk_stats_event_pack(uint64_t time_ns, unsigned int kind, unsigned int cause)
{
	return (time_ns / 1000) << 16 | (uint64_t)(kind & 0xff) << 8 | (cause & 0xff);
}

static inline uint64_t rsk_stats_event_time_ns(uint64_t event)
{
	return (event >> 16) * 1000;
}

static inline unsigned int rsk_stats_event_kind(uint64_t event)
{
	return (unsigned int)(event >> 8) & 0xff;
}

static inline unsigned int rsk_stats_event_cause(uint64_t event)
{
	return (unsigned int)event & 0xff;
}

/*
 * Operator request for one stream: a word that the tool changes by compare-and-swap, and that the
 * stream's owner checks in its own calls. Bits 63-32: the generation of the record, which the
 * library increments, from 1, with each stream that gets the record; 31-8: number of the request in
 * that generation; 7-0: enum rsk_stats_request. A swap meant for a stream that has ended fails,
 * since the word has another generation by then, and the library accepts only a word of its own
 * generation. 0: the library does not support requests.
 */
enum rsk_stats_request {
	RSK_REQUEST_NONE = 0,
	RSK_REQUEST_DEMOTE = 1,	 /* on TCP, both ways, until the next request */
	RSK_REQUEST_PROMOTE = 2, /* on the ring, as soon as possible */
};

static inline uint32_t rsk_stats_request_generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline unsigned int rsk_stats_request_kind(uint64_t word)
{
	return (unsigned int)(word & 0xff);
}

/* The word without a request, for the generation after that of @word. */
static inline uint64_t rsk_stats_request_next_generation(uint64_t word)
{
	uint32_t generation = rsk_stats_request_generation(word) + 1;

	return (uint64_t)(generation ? generation : 1) << 32;
}

/* The word for the next request in the same generation. */
static inline uint64_t rsk_stats_request_next(uint64_t word, enum rsk_stats_request kind)
{
	uint32_t number = (uint32_t)(word >> 8) + 1;

	return (word >> 32) << 32 | (uint32_t)(number << 8) | (uint32_t)kind;
}

/* First page. Written once, except for the fields after created_ns. */
struct rsk_stats_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of the whole segment */
	uint32_t processes;
	uint32_t process_bytes;
	uint32_t streams;
	uint32_t stream_bytes;
	uint64_t created_ns; /* CLOCK_MONOTONIC */
	/* Where the search for a record continues; a hint. */
	uint32_t cursor;
	/* No record from here on was ever used; a hint. */
	uint32_t high_water;
	uint64_t unrecorded; /* streams that got no record */
	/* When records of dead processes were last searched. */
	uint64_t swept_ns;
	uint8_t spare[4096 - 64 - RSK_STATS_STREAMS / 8];
	/* One bit per record that is open. */
	uint64_t busy[RSK_STATS_STREAMS / 64];
};

/* One of the processes that share the segment. Only its own threads add to its counters. */
struct rsk_stats_process {
	uint32_t pid; /* 0: free; claimed by compare-and-swap */
	uint32_t pad;
	/* Field 22 of /proc/<pid>/stat: detects reuse of a pid. */
	uint64_t start_ticks;
	/* Zero-terminated; may contain anything. */
	char comm[16];
	uint64_t spins;	       /* waits that spun */
	uint64_t spins_useful; /* of these, those that saw what they waited for */
	uint64_t sleeps;
	uint64_t wakes;
	/*
	 * Totals of streams that ended while they counted for this process, or for a process that
	 * had the record before.
	 */
	uint64_t ended;
	uint64_t ended_promotions;
	uint64_t ended_demotions;
	uint64_t ended_repairs;
	uint64_t ended_retries;
	uint64_t ended_ring_bytes; /* both directions */
	uint64_t ended_tcp_bytes;
	/* Of the same processes. The progress thread writes them. */
	uint64_t registrations[RSK_STATS_REG_COUNT];
	uint64_t spare[3];
	/* Of the same processes. Any thread adds to them, relaxed; in cache lines of their own. */
	uint64_t verbs[RSK_STATS_VERBS_COUNT];
	uint64_t spare_verbs[1];
};

/*
 * What a receiver over several rails has seen before its turn. Only the holder of the stream's rx
 * lock writes it, by relaxed stores; others read it.
 */
struct rsk_stats_ahead {
	uint64_t slots;	   /* seen while an earlier one was missing */
	uint64_t overtook; /* transactions that were complete before one with a lower number */
	/*
	 * Name of the gap that a reader found when there was nothing to read: how many transactions
	 * lacked something although newer ones were there, and the lowest number of those. 0: none,
	 * or what was seen is read.
	 */
	uint64_t gap;
	uint64_t gap_lowest;
	uint64_t spare[4];
};

/*
 * One end of a stream. Line 0: what it is; lines 1 and 2: counters of the sender and of the
 * receiver, in separate cache lines, since two threads may update them; line 1 also has the
 * operator request; line 3: the last events; line 4: rail failures, written by the library's own
 * thread, and what each rail has carried, written by a sender; line 5: what has overtaken, written
 * by a receiver.
 */
struct rsk_stats_stream {
	uint32_t state; /* enum rsk_stats_state */
	uint32_t pid;	/* the process it counts for */
	uint8_t local[16];
	uint8_t peer[16];
	uint16_t local_port;
	uint16_t peer_port;
	uint8_t family;	    /* AF_INET, AF_INET6 */
	uint8_t connecting; /* 1: this end has connected; 0: accepted, or that is not known */
	/* enum rsk_reason: why the stream is on its path now. */
	uint8_t reason;
	/* What the other end reported; RSK_REASON_DIRECT: nothing. */
	uint8_t peer_reason;
	uint8_t tx; /* enum rsk_path */
	uint8_t rx;
	uint8_t demote_cause; /* of the last demotion, RSK_REASON_DIRECT: none yet */
	/* 1: on TCP for good, whatever is requested. */
	uint8_t given_up;
	uint32_t link; /* number of the link within the process, 0: none */
	uint64_t opened_ns;

	uint64_t tx_ring_bytes;
	uint64_t tx_tcp_bytes;
	uint64_t tx_slots;
	uint32_t promotions; /* of either direction */
	uint32_t demotions;
	/* Slots written again: their rail was lost, or they were damaged at the receiver. */
	uint64_t tx_repairs;
	/* Written by the tool: see enum rsk_stats_request. */
	uint64_t request;
	/* The newest request that the library has applied. */
	uint64_t applied;
	uint64_t tx_tcp_calls; /* calls that sent something by TCP */

	uint64_t rx_ring_bytes;
	uint64_t rx_tcp_bytes;
	uint64_t rx_slots;
	uint64_t hash_retries;
	/* Of its ring: "shm", "verbs DEVICE/PORT"; empty: it never had one. */
	char fabric[RSK_STATS_FABRIC_BYTES];
	/* Total; the next event goes to [events_written % RSK_STATS_EVENTS]. */
	uint32_t events_written;
	/*
	 * Descriptor number of the process at its start; local_port 0: its addresses can be read
	 * from it.
	 */
	uint32_t fd_plus_1;

	uint64_t events[RSK_STATS_EVENTS];

	/* Times that one of several rails was lost and others remained. */
	uint64_t rails_lost;
	/* Transactions that were not complete at the receiver at such a time. */
	uint64_t missing;
	/* Of these, those whose first packet had not arrived. */
	uint64_t missing_first;
	/* Bytes of slots, with head and hash, put by each rail of its link. */
	uint64_t tx_rail_bytes[RSK_STATS_RAILS];
	uint64_t rx_tcp_calls; /* calls that received something by TCP; written by the receiver */

	struct rsk_stats_ahead ahead;
};

/*
 * Requests with their answers, or answers with their requests: the smaller of the numbers of
 * messages in the two directions. A message is a slot, or a call on the TCP path, so a large one
 * counts as several, and what is sent together as one.
 */
static inline uint64_t rsk_stats_transactions(const struct rsk_stats_stream *r)
{
	uint64_t tx = r->tx_slots + r->tx_tcp_calls, rx = r->rx_slots + r->rx_tcp_calls;

	return tx < rx ? tx : rx;
}

/* The port at which the accepting end has listened; 0: not known. */
static inline uint16_t rsk_stats_service_port(const struct rsk_stats_stream *r)
{
	return r->connecting ? r->peer_port : r->local_port;
}

struct rsk_stats_segment {
	struct rsk_stats_header header;
	struct rsk_stats_process process[RSK_STATS_PROCESSES];
	struct rsk_stats_stream stream[RSK_STATS_STREAMS];
};

_Static_assert(RSK_STATS_STREAMS % 64 == 0, "whole words of busy bits");
_Static_assert(sizeof(struct rsk_stats_header) == 4096, "header is a page");
_Static_assert(offsetof(struct rsk_stats_header, spare) == 64, "header");
_Static_assert(sizeof(struct rsk_stats_process) == 320, "process record");
_Static_assert(offsetof(struct rsk_stats_process, verbs) == 192, "line 3");
_Static_assert(sizeof(struct rsk_stats_stream) == 384, "stream record");
_Static_assert(offsetof(struct rsk_stats_stream, tx_ring_bytes) == 64, "line 1");
_Static_assert(offsetof(struct rsk_stats_stream, rx_ring_bytes) == 128, "line 2");
_Static_assert(offsetof(struct rsk_stats_stream, events) == 192, "line 3");
_Static_assert(offsetof(struct rsk_stats_stream, rails_lost) == 256, "line 4");
_Static_assert(offsetof(struct rsk_stats_stream, ahead) == 320, "line 5");
_Static_assert(sizeof(struct rsk_stats_segment) ==
		       4096 + RSK_STATS_PROCESSES * 320 + RSK_STATS_STREAMS * 384,
	       "segment");

#endif /* RSOCK_STATS_H */
