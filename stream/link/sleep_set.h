/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sleep_set.h - an epoll set for calls that sleep on the same stream again and again, as a blocking
 * recv() in a loop does: a doorbell's edges, and the stream's TCP socket. One system call sleeps,
 * and takes the edge out, where ppoll() on the doorbell's set and the socket needs another one.
 *
 * Each exclusive doorbell of a link on one host has at most one, made when a stream sleeps on that
 * doorbell for the second time in succession. Whoever has taken the doorbell has the set: private
 * memory of the process, ordered by the bit in doorbells_taken (seq_cst). See
 * docs/adr/doorbells.md.
 */
#ifndef RSK_SLEEP_SET_H
#define RSK_SLEEP_SET_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_link;

struct rsk_sleep_set {
	int fd; /* 0: there is none */
	/* What is in it, and what slept last: SO_COOKIE and number of the TCP socket. */
	int tcp, last_tcp;
	uint64_t cookie, last_cookie;
};

/* What woke the sleeper; also both. */
#define RSK_SLEEP_SET_TCP 1
#define RSK_SLEEP_SET_RUNG 2

/*
 * rsk_sleep_set_for - the set of doorbell @i with the TCP socket @tcp, whose SO_COOKIE is @cookie;
 * its descriptor stays the link's. -1: sleep on both without a set.
 *
 * A number may be closed, and name the same socket again, but as long as any number names it the
 * kernel keeps the entry; a socket's cookie is never given to another one. So a set that was made
 * for both is right.
 */
int rsk_sleep_set_for(struct rsk_link *l, uint32_t i, uint64_t cookie, int tcp);

/* Closes the sets of all doorbells. */
void rsk_sleep_sets_close(struct rsk_link *l);

#endif
