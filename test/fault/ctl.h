/*
 * ctl.h - what the programs of test/fault (peer.c, hostile.c) share: bytes that are computed from
 * their position, one connection, and progress that is seen from outside.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Progress of one process, in a file that the harness maps as well: it is right even when the
 * process is killed at any instant. A send of n bytes in flight shows as trying == sent + n.
 */
struct progress {
	uint64_t sent;
	uint64_t trying;
	uint64_t received;
	uint64_t pad;
};

/* One TCP connection; owned by the program's main thread. */
struct conn {
	int fd;
	uint64_t tx_seed;
	uint64_t rx_seed;
	uint64_t tx_pos_bytes;
	uint64_t rx_pos_bytes;
};

enum io {
	IO_BLOCK,
	IO_POLL,
	IO_EPOLL,
	IO_EDGE
};

/* One order to move bytes. UINT64_MAX: send without end, or receive until EOF. */
#define FLOW_CHUNK_MOST (1u << 20)

struct flow {
	struct conn *conn;
	struct progress *progress;
	enum io io;
	uint64_t tx_bytes;
	uint64_t rx_bytes;
	uint64_t chunk_bytes; /* sizes of calls are drawn from 1 to this; at most FLOW_CHUNK_MOST */
	bool fin;	      /* shutdown(SHUT_WR) after the last byte */
	uint32_t pause_us;    /* after each recv */
	const char *tx_end;   /* "done", "none" or the name of an errno */
	const char *rx_end;   /* "done", "eof" or the name of an errno */
	uint64_t wrong_at;    /* first wrong position received, UINT64_MAX: none */
};

/* Fills buf with the bytes [pos, pos + len) of the endless stream that seed names. */
void pattern_fill(uint64_t seed, uint64_t pos, uint8_t *buf, size_t len);

/* The first position in [pos, pos + len) whose byte in buf is wrong; UINT64_MAX if none is. */
uint64_t pattern_check(uint64_t seed, uint64_t pos, const uint8_t *buf, size_t len);

/* A random size from 1 to max, with small and large ones equally likely; state is the caller's. */
uint64_t random_size(uint64_t *state, uint64_t max);

/*
 * Moves the bytes of one order; returns when both directions have ended, which may take as long as
 * the peer likes.
 */
void flow_run(struct flow *flow);

/*
 * Many connections at once (crowd.c), besides the single one. crowd_open() takes count sockets from
 * next(), which must not fail. crowd_talk() runs so many rounds, in each of which both ends send
 * bytes on each connection and receive as many; it returns how many times bytes were wrong. Both
 * block, and end the process on an error.
 */
void crowd_open(uint32_t count, int (*next)(void *arg), void *arg, bool server);
uint64_t crowd_talk(uint32_t rounds, size_t bytes);
void crowd_close(void);

const char *errno_name(int error);
