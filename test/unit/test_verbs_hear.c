// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_hear.c - tests how the module delivers the control messages of the peers' progress
 * threads: no peer keeps the progress thread busy, none prevents another from being served, and
 * what is left is delivered in a later turn that needs no further trigger. Rails without a device:
 * the test plays the peer and the completions.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "inner.h"

extern const struct rsk_verbs_module rsk_verbs_module;

enum {
	RAILS = 3,
	TURN = 200,	/* control messages of one rail in a turn, at the very most */
	TURNS = 100000, /* beyond that it is an endless loop */
};

struct rail {
	struct rsk_verbs_rail *r;
	uint64_t put;	     /* units that the peer has put */
	uint32_t said, left; /* control messages; how many it still has to send */
	uint32_t cell;	     /* of the message that it is sending */
	uint32_t heard, heard_now;
	bool dies; /* when its next message is delivered */
};

static struct rsk_verbs verbs;
static uint64_t counts[RSK_STATS_VERBS_COUNT];
static struct rail rails[RAILS];
static uint32_t calls;

static void compose(uint8_t word[static RSK_VERBS_MSG_BYTES], const struct rail *at, uint32_t n)
{
	uint32_t stamp[2] = { (uint32_t)(at - rails), n };

	memset(word, 0, RSK_VERBS_MSG_BYTES);
	memcpy(word, stamp, sizeof(stamp));
}

/*
 * A thread of the program that polls meanwhile: it moves what it finds, as far as there is room
 * (poll.c).
 */
static void poller(struct rail *at)
{
	struct rsk_indirect_entry e;
	int units, rc = 0;

	while (rc == 0 && atomic_load(&at->r->in_avail)) {
		units = rsk_indirect_take(at->r->buf->in, at->r->in_at,
					  atomic_load(&at->r->in_avail), 0, 0, &e);
		cr_assert_gt(units, 0);
		rc = rsk_control_msgs_put(&at->r->heard, e.off,
					  at->r->buf->in + rsk_indirect_place(at->r->in_at + 1),
					  e.bytes);
		if (rc < 0)
			break;
		at->r->in_at += (uint32_t)units;
		atomic_fetch_sub(&at->r->in_avail, (uint32_t)units);
		calls++;
	}
}

/* Puts as much as there is room for; the completion is taken. */
static void peer_says(struct rail *at)
{
	uint8_t word[RSK_VERBS_MSG_BYTES];

	while (at->left) {
		uint32_t room = RSK_INDIRECT_UNITS - (uint32_t)(at->put - at->r->in_at);
		uint32_t off = at->cell * RSK_CELL_BYTES, bytes = RSK_VERBS_MSG_BYTES - off, units;

		compose(word, at, at->said);
		units = rsk_indirect_put(at->r->buf->in, at->put, room, RSK_INDIRECT_WORDS, off,
					 word + off, &bytes);
		if (!units)
			break;
		at->put += units;
		atomic_fetch_add(&at->r->in_avail, units);
		at->cell += bytes / RSK_CELL_BYTES;
		if (at->cell * RSK_CELL_BYTES == RSK_VERBS_MSG_BYTES) {
			at->cell = 0;
			at->said++;
			at->left--;
		}
	}
	poller(at);
}

static void peer_begins(struct rail *at, uint32_t words)
{
	at->left = words;
	peer_says(at);
}

static void heard(void *ctx, void *rail_ctx, const uint8_t word[static RSK_VERBS_MSG_BYTES])
{
	uint8_t want[RSK_VERBS_MSG_BYTES];
	struct rail *at = rail_ctx;

	compose(want, at, at->heard);
	cr_assert_arr_eq(word, want, sizeof(want), "rail %d, word %u", (int)(at - rails),
			 at->heard);
	at->heard++;
	cr_assert_lt(++at->heard_now, TURN, "rail %d keeps the progress thread", (int)(at - rails));
	if (at->dies) {
		/* As rsk_rail_break() drops it. */
		at->r->heard.n = at->r->heard.bytes = 0;
		atomic_store(&at->r->in_avail, 0);
		return;
	}
	peer_says(at);
}

static void call(void *ctx)
{
	calls++;
}

static void news(void *ctx, void *rail_ctx, uint32_t sid, uint32_t what)
{
	cr_assert_fail("no stream has anything");
}

static void begin(void)
{
	static struct rsk_seg seg;
	struct epoll_event ev = { .events = EPOLLIN };

	verbs.host = (struct rsk_verbs_host){
		.counts = counts, .heard = heard, .call = call, .news = news
	};
	verbs.work_fd = epoll_create1(0);
	verbs.news_fd = epoll_create1(0);
	verbs.more_fd = eventfd(0, EFD_NONBLOCK);
	verbs.kernel_fd = -1;
	cr_assert_eq(epoll_ctl(verbs.news_fd, EPOLL_CTL_ADD, verbs.more_fd, &ev), 0);
	for (int i = RAILS - 1; i >= 0; i--) {
		struct rsk_verbs_rail *r = rails[i].r = calloc(1, sizeof(*r));

		r->v = &verbs;
		r->seg = &seg;
		r->ctx = &rails[i];
		r->buf = calloc(1, sizeof(*r->buf));
		pthread_mutex_init(&r->lock, NULL);
		pthread_mutex_init(&r->in_lock, NULL);
		r->next = verbs.rails;
		verbs.rails = r;
	}
}

static void turn(void)
{
	calls = 0;
	for (int i = 0; i < RAILS; i++)
		rails[i].heard_now = 0;
	rsk_verbs_module.work(&verbs);
}

/* Runs the progress thread as long as it is triggered. Returns the number of turns. */
static uint32_t turns(void)
{
	uint32_t n = 0;

	while (calls) {
		cr_assert_lt(n++, TURNS, "it is called without end");
		turn();
	}
	return n;
}

Test(verbs_hear, no_end_of_words, .timeout = 20)
{
	begin();
	for (int endless = 0; endless < RAILS; endless++) {
		struct rail *at = &rails[endless];
		uint32_t before = at->heard;

		for (int i = 0; i < RAILS; i++)
			peer_begins(&rails[i], &rails[i] == at ? UINT32_MAX : 3);
		for (int i = 0; i < 10; i++) {
			cr_assert_gt(calls, 0, "turn %d: what is left waits for somebody else", i);
			turn();
			for (int k = 0; k < RAILS; k++)
				cr_assert_eq(rails[k].said - rails[k].heard > 0, k == endless,
					     "turn %d: rail %d is kept from being heard", i, k);
			cr_assert_gt(at->heard_now, 0);
		}
		cr_assert_gt(at->heard, before + 10);
		at->left = 5; /* it ends after all: all of it is delivered */
		turns();
		cr_assert_eq(at->heard, at->said, "%u of %u", at->heard, at->said);
		cr_assert_eq(at->left, 0);
	}
}

/*
 * Any number of messages: all are delivered, in as many turns as that takes, and then no turn
 * follows.
 */
Test(verbs_hear, none_is_left, .timeout = 20)
{
	begin();
	for (uint32_t words = 0; words < 300; words++) {
		for (int i = 0; i < RAILS; i++)
			peer_begins(&rails[i], i == 1 ? words : words / 3);
		turns();
		for (int i = 0; i < RAILS; i++)
			cr_assert_eq(rails[i].heard, rails[i].said, "%u words: %u of %u", words,
				     rails[i].heard, rails[i].said);
	}
}

/* The rest of a rail that fails during its delivery is dropped, and the others are delivered. */
Test(verbs_hear, one_dies, .timeout = 20)
{
	begin();
	for (int i = 0; i < RAILS; i++)
		peer_begins(&rails[i], 7);
	rails[0].dies = true;
	turns();
	cr_assert_eq(rails[0].heard, 1);
	for (int i = 1; i < RAILS; i++)
		cr_assert_eq(rails[i].heard, 7);
}
