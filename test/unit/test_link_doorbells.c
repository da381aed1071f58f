// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_link_doorbells.c - tests the doorbells of a link to another host: how many there are, who is
 * woken, on what a call sleeps, and when the progress thread has to take the completions.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine.h"
#include "link.h"
#include "news.h"
#include "plain_host.h"
#include "process.h"
#include "sockets.h"

#define EXCLUSIVE (RSK_LINK_DOORBELLS - 1)

static int completions; /* an eventfd in place of the completion channel */

static struct rsk_link *remote_link(void)
{
	struct rsk_link *l;

	rsk_engine_init(&plain_host);
	l = rsk_link_new(true);
	cr_assert_not_null(l);
	completions = eventfd(0, EFD_NONBLOCK);
	cr_assert_eq(rsk_link_hear(l, completions), 0);
	return l;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void complete(void)
{
	const uint64_t one = 1;

	cr_assert_eq(write(completions, &one, sizeof(one)), sizeof(one));
}

Test(link_doorbells, each_sleeper_has_its_own_while_there_are_any)
{
	struct rsk_doorbell b[EXCLUSIVE], shared, again;
	struct rsk_link *l = remote_link();
	uint64_t seen = 0;

	for (uint32_t i = 0; i < EXCLUSIVE; i++) {
		cr_assert_eq(rsk_doorbell_take(&b[i], l), 0);
		cr_assert_neq(b[i].index, RSK_SEG_SHARED_DOORBELL);
		cr_assert_eq(seen & 1ull << b[i].index, 0, "doorbell %u twice", b[i].index);
		seen |= 1ull << b[i].index;
		cr_assert_eq(rsk_doorbell_needs_progress(&b[i]), false);
	}
	cr_assert_eq(rsk_doorbell_take(&shared, l), 0);
	cr_assert_eq(shared.index, RSK_SEG_SHARED_DOORBELL);
	cr_assert(rsk_doorbell_needs_progress(&shared));
	/* Each alone is woken. */
	for (uint32_t i = 0; i < EXCLUSIVE; i++) {
		rsk_link_strike(l, 1ull << b[i].index);
		for (uint32_t k = 0; k < EXCLUSIVE; k++)
			for (int news = RSK_NEWS_ITSELF; news <= RSK_NEWS_BY_PROGRESS; news++)
				cr_assert_eq(readable(rsk_doorbell_fd(&b[k], (enum rsk_news)news)),
					     k == i);
		rsk_doorbell_rang(&b[i], RSK_NEWS_BY_PROGRESS);
	}
	/* One that was given is taken again, by the thread that had it. */
	rsk_doorbell_give(&b[40]);
	cr_assert_eq(rsk_doorbell_take(&again, l), 0);
	cr_assert_eq(again.index, b[40].index);
}

Test(link_doorbells, only_who_sleeps_on_them_sees_completions)
{
	struct rsk_link *l = remote_link();
	struct rsk_doorbell b;

	cr_assert_eq(rsk_doorbell_take(&b, l), 0);
	complete();
	cr_assert(readable(rsk_doorbell_fd(&b, RSK_NEWS_ITSELF)));
	cr_assert_eq(readable(rsk_doorbell_fd(&b, RSK_NEWS_BY_PROGRESS)), false);
}

Test(link_doorbells, the_shared_one_wakes_all_that_sleep_on_it_each_time)
{
	struct rsk_doorbell mine[EXCLUSIVE], b[2];
	struct rsk_link *l = remote_link();

	for (uint32_t i = 0; i < EXCLUSIVE; i++)
		cr_assert_eq(rsk_doorbell_take(&mine[i], l), 0);
	rsk_link_strike(l, 1ull << RSK_SEG_SHARED_DOORBELL); /* nobody's */
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(rsk_doorbell_take(&b[i], l), 0);
		rsk_doorbell_ready(&b[i]);
		cr_assert_eq(readable(rsk_doorbell_fd(&b[i], RSK_NEWS_BY_PROGRESS)), false);
	}
	complete();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++)
			cr_assert_eq(readable(rsk_doorbell_fd(&b[i], RSK_NEWS_BY_PROGRESS)), false);
		rsk_link_strike(l, 1ull << RSK_SEG_SHARED_DOORBELL);
		for (int i = 0; i < 2; i++) {
			cr_assert(readable(rsk_doorbell_fd(&b[i], RSK_NEWS_BY_PROGRESS)));
			rsk_doorbell_rang(&b[i], RSK_NEWS_BY_PROGRESS);
			rsk_doorbell_ready(&b[i]);
		}
	}
}

/* A peer to another host can set any bit of the words that announcements are in. */
Test(link_doorbells, bits_of_doorbells_that_were_never_made_do_nothing)
{
	struct rsk_link *l = remote_link();
	struct rsk_doorbell b;

	cr_assert_eq(rsk_doorbell_take(&b, l), 0);
	rsk_link_strike(l, ~(1ull << b.index));
	cr_assert_eq(readable(rsk_doorbell_fd(&b, RSK_NEWS_BY_PROGRESS)), false);
	rsk_link_strike(l, UINT64_MAX);
	cr_assert(readable(rsk_doorbell_fd(&b, RSK_NEWS_BY_PROGRESS)));
}

Test(link_doorbells, without_descriptors_the_shared_one_is_left)
{
	struct rsk_link *l = remote_link();
	struct rlimit none = { 0 }, was;
	uint32_t i;

	i = rsk_link_take_doorbell(l, 3);
	cr_assert_eq(i, 3);
	getrlimit(RLIMIT_NOFILE, &was);
	none.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	cr_assert_eq(rsk_link_take_doorbell(l, 4), RSK_SEG_SHARED_DOORBELL);
	setrlimit(RLIMIT_NOFILE, &was);
	/* Nothing is lost: it is made the next time. */
	cr_assert_eq(rsk_link_take_doorbell(l, 4), 4);
	rsk_link_give_doorbell(l, RSK_SEG_SHARED_DOORBELL);
	cr_assert_eq(rsk_link_take_doorbell(l, 3), 0);
}

Test(link_doorbells, descriptors_end_with_the_link)
{
	struct rsk_link *l = remote_link();
	uint32_t before = open_files();

	for (uint32_t i = 0; i < 20; i++)
		cr_assert_neq(rsk_link_take_doorbell(l, i), RSK_SEG_SHARED_DOORBELL);
	cr_assert_eq(open_files(), before + 2 * 20);
	rsk_link_forked(l, false);
	cr_assert_eq(open_files(), before - 2); /* of the shared one too */
}

Test(link_doorbells, few_take_completions_themselves)
{
	enum rsk_news n[6];

	cr_assert_eq(rsk_news_wanted(), false);
	n[0] = rsk_news_sleep_begin(false);
	n[1] = rsk_news_sleep_begin(false);
	cr_assert_eq(n[0], RSK_NEWS_ITSELF);
	cr_assert_eq(n[1], RSK_NEWS_ITSELF);
	cr_assert_eq(rsk_news_wanted(), false);
	n[2] = rsk_news_sleep_begin(false);
	cr_assert_eq(n[2], RSK_NEWS_BY_PROGRESS);
	cr_assert(rsk_news_wanted());
	/* It stays so for that one, also when it is the last. */
	rsk_news_sleep_end(n[0]);
	rsk_news_sleep_end(n[1]);
	cr_assert(rsk_news_wanted());
	rsk_news_sleep_end(n[2]);
	cr_assert_eq(rsk_news_wanted(), false);
	/* Who has no other way relies on the progress thread, however few sleep. */
	n[3] = rsk_news_sleep_begin(true);
	cr_assert_eq(n[3], RSK_NEWS_BY_PROGRESS);
	cr_assert(rsk_news_wanted());
	rsk_news_sleep_end(n[3]);
	rsk_news_sleep_end(RSK_NEWS_AWAKE);
	cr_assert_eq(rsk_news_wanted(), false);
	cr_assert_eq(rsk_news_sleep_begin(false), RSK_NEWS_ITSELF);
}
