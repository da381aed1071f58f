/* What the fault helpers share: bytes that tell their position, one connection, progress seen from outside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Progress of one process, in a file that the harness maps as well: what it says holds even when the
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

/* One order to move bytes; UINT64_MAX: endless to send, or until EOF to receive. */
struct flow {
	struct conn *conn;
	struct progress *progress;
	enum io io;
	uint64_t tx_bytes;
	uint64_t rx_bytes;
	uint64_t chunk_bytes; /* sizes of calls are drawn from 1 to this */
	bool fin;	      /* shutdown(SHUT_WR) after the last byte */
	uint32_t pause_us;    /* after each recv */
	const char *tx_end;   /* "done", "none" or the name of an errno */
	const char *rx_end;   /* "done", "eof" or the name of an errno */
	uint64_t wrong_at;    /* first wrong position received, UINT64_MAX: none */
};

/* Fill buf with the bytes [pos, pos + len) of the endless stream named by seed. */
void pattern_fill(uint64_t seed, uint64_t pos, uint8_t *buf, size_t len);

/* The first position in [pos, pos + len) whose byte in buf is wrong; UINT64_MAX if none is. */
uint64_t pattern_check(uint64_t seed, uint64_t pos, const uint8_t *buf, size_t len);

/* A size from 1 to max, small and large ones equally likely; state is the caller's. */
uint64_t random_size(uint64_t *state, uint64_t max);

/* Move the bytes of one order; returns when both directions have ended. May block for as long as they last. */
void flow_run(struct flow *flow);

/*
 * Many connections at once (crowd.c), beside the one: as many as next() gives, which must not fail; then so many rounds
 * in which both ends send so many bytes on each and take as many. Returns how many times bytes were wrong. Both block.
 */
void crowd_open(uint32_t count, int (*next)(void *arg), void *arg, bool server);
uint64_t crowd_talk(uint32_t rounds, size_t bytes);
void crowd_close(void);

const char *errno_name(int error);
