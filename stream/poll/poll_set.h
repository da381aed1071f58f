/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll_set.h - the list of one poll(2) call: its paired streams, the doorbells that the call sleeps
 * on, and what else the kernel is to poll for it. Internal to stream/poll/.
 */
#ifndef RSK_POLL_SET_H
#define RSK_POLL_SET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "by_time.h"
#include "link.h"

struct rsk_stream;

#define RSK_POLL_OUT_EVENTS (POLLOUT | POLLWRNORM)
#define RSK_POLL_SMALL_SET 32
/* Of how many streams that are being paired the kernel polls the descriptors as well. */
#define RSK_POLL_PAIRING_FDS 4

struct rsk_poll_item {
	nfds_t at;
	struct rsk_stream *s; /* pinned */
	bool paired;
	uint32_t doorbell; /* index in doorbells[] */
};

struct rsk_poll_set {
	struct pollfd *fds;
	struct pollfd *kernel; /* [n + doorbells + RSK_POLL_PAIRING_FDS] */
	nfds_t n;
	struct rsk_poll_item *items;
	uint32_t nitems, npaired, nepolls;
	nfds_t nasked;			/* entries with an fd */
	struct rsk_doorbell *doorbells; /* one for each link; there are at most as many as items */
	uint32_t ndoorbells;
	enum rsk_news news; /* in the sleep, if one of them leads to another host */
	struct pollfd pairing[RSK_POLL_PAIRING_FDS];
	uint32_t npairing, rounds;
	bool pairs; /* one of them is being paired */
	bool heard; /* a pairing descriptor had an event */
	bool announced;
	uint32_t nannounced; /* the items before this one */
	struct rsk_by_time by_time;
	void *memory; /* arena, if the set is large */
	struct pollfd small_fds[RSK_POLL_SMALL_SET * 2 + RSK_POLL_PAIRING_FDS];
	struct rsk_poll_item small_items[RSK_POLL_SMALL_SET];
	struct rsk_doorbell small_doorbells[RSK_POLL_SMALL_SET];
};

/*
 * Fills in all of *@p, on the caller's stack; pins the streams. 0 or -ENOMEM; in both cases
 * rsk_poll_set_fini() is due, also when the thread is cancelled in its sleep.
 */
int rsk_poll_set_init(struct rsk_poll_set *p, struct pollfd *fds, nfds_t n);
void rsk_poll_set_fini(struct rsk_poll_set *p);

/*
 * Continues the pairing of streams in the list while this call waits for them, so that it takes as
 * many messages as the pairing has, not as many calls of the two programs. A program that exchanges
 * a first message, and then forks, is paired by then.
 */
void rsk_poll_set_pair(struct rsk_poll_set *p);

/* Tells the peers that this call sleeps, or goes by time if there is no descriptor to do so. */
void rsk_poll_set_announce(struct rsk_poll_set *p);
void rsk_poll_set_retract(struct rsk_poll_set *p);

/* Before and after the sleep (news.h). */
void rsk_poll_set_asleep(struct rsk_poll_set *p);
void rsk_poll_set_awake(struct rsk_poll_set *p);

/* From now on no doorbell is waited for, and no descriptor of a pairing. */
void rsk_poll_set_go_by_time(struct rsk_poll_set *p);

#endif
