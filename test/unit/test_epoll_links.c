// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_epoll_links.c - tests which links of an epoll set are polled and which are announced. In
 * random order links come and go, peers put news and ring, the kernel reports that late, and
 * threads sleep and wake up: no news is left where no thread looks for it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "epollset.h"
#include "dice.h"
#include "plain_host.h"

enum {
	LINKS = 3 * RSK_EPOLL_POLLED,
	STEPS = 60000,
	DOORBELL = 3,
	SID = 0
};

static uint64_t dice;
static struct rsk_epoll_family *family;
static struct rsk_epoll *set;
static struct rsk_link *links[LINKS];
static bool is_in[LINKS];
/* The peer has rung, and the kernel has not reported it: with the index that it was added with. */
static bool rings[LINKS];
static uint32_t index_of[LINKS];

static uint32_t below(uint32_t n)
{
	return (uint32_t)(dice_roll(&dice) % n);
}

static void begin(void)
{
	rsk_engine_init(&plain_host);
	family = rsk_epoll_family();
	set = rsk_epoll_new(epoll_create1(EPOLL_CLOEXEC));
	cr_assert_not_null(set);
	for (int i = 0; i < LINKS; i++) {
		links[i] = rsk_link_hollow();
		cr_assert_not_null(links[i]);
	}
}

static struct rsk_seg_head *head_of(int i)
{
	return rsk_seg_own_head(&links[i]->seg);
}

static int add(int i)
{
	int at = rsk_epoll_links_room(&set->links);

	if (at < 0)
		return at;
	rsk_lock(&family->chain);
	rsk_epoll_links_add(set, links[i], DOORBELL);
	rsk_unlock(&family->chain);
	is_in[i] = true;
	index_of[i] = (uint32_t)at;
	return at;
}

static void drop(int i)
{
	rsk_lock(&family->chain);
	rsk_epoll_links_drop(set, links[i]);
	rsk_unlock(&family->chain);
	is_in[i] = rings[i] = false; /* its doorbell leaves the kernel's set */
}

/* What the peer does for news: rsk_seg_due(). */
static void put_news(int i)
{
	uint64_t taken;

	atomic_store(&rsk_seg_own_ctl(&links[i]->seg, SID)->epolls_rx, 1u << DOORBELL);
	taken = rsk_seg_due(head_of(i), SID, RSK_WAKE_RX);
	if (taken & 1u << DOORBELL)
		rings[i] = is_in[i];
}

static void report(int i)
{
	if (rings[i])
		rsk_epoll_links_rang(set, index_of[i]);
	rings[i] = false;
}

static const struct rsk_epoll_link *entry_of(int i)
{
	return &set->links.table[index_of[i]];
}

/* A link that no check looks at is announced, or its ring is on the way to one. */
static void check(void)
{
	cr_assert(rsk_epoll_links_validate(&set->links));
	for (int i = 0; i < LINKS; i++) {
		bool announced = atomic_load(&head_of(i)->asleep) & 1u << DOORBELL;

		if (!is_in[i])
			continue;
		cr_assert_eq(entry_of(i)->l, links[i]);
		cr_assert(entry_of(i)->polled || entry_of(i)->rung || announced || rings[i],
			  "link %d is not looked at", i);
	}
}

/* No news is left behind a check, of which the kernel's part is over. */
static void check_drained(void)
{
	rsk_epoll_drain(family, set);
	check();
	for (int i = 0; i < LINKS; i++)
		cr_assert(!is_in[i] || rings[i] || !atomic_load(&head_of(i)->ready[0]),
			  "link %d has news", i);
}

static void sleep_and_wake(void)
{
	atomic_fetch_add(&set->sleepers, 1);
	rsk_epoll_announce(set);
	check_drained();
	for (int i = 0; i < LINKS; i++)
		cr_assert(!is_in[i] || rings[i] ||
				  atomic_load(&head_of(i)->asleep) & 1u << DOORBELL,
			  "link %d does not wake a sleeper", i);
	for (uint32_t n = below(8); n; n--)
		put_news((int)below(LINKS));
	for (uint32_t n = below(8); n; n--)
		report((int)below(LINKS));
	if (below(4) == 0)
		check_drained();
	atomic_fetch_sub(&set->sleepers, 1);
	if (set->links.n > RSK_EPOLL_POLLED)
		rsk_epoll_links_woken(set);
	check();
}

Test(epoll_links, no_news_is_left, .init = begin, .timeout = 120)
{
	dice = dice_seed("epoll_links");
	for (int step = 0; step < STEPS; step++) {
		int i = (int)below(LINKS);

		switch (below(8)) {
		case 0:
			if (!is_in[i])
				cr_assert_geq(add(i), 0);
			break;
		case 1:
			if (is_in[i] && below(2))
				drop(i);
			break;
		case 2:
		case 3:
			put_news(i);
			break;
		case 4:
		case 5:
			report(i);
			break;
		case 6:
			sleep_and_wake();
			break;
		default:
			/* An event of a link that has gone. */
			rsk_epoll_links_rang(set, below(2 * LINKS));
			check_drained();
		}
		if (step % 64 == 0)
			check();
	}
}

/* The number of polled links bounds what a wait costs. */
Test(epoll_links, few_are_polled, .init = begin)
{
	for (int i = 0; i < LINKS; i++)
		cr_assert_eq(add(i), i);
	cr_assert_eq(set->links.npolled, RSK_EPOLL_POLLED);
	for (int i = 0; i < LINKS; i++) {
		put_news(i);
		report(i);
	}
	check_drained();
	cr_assert_eq(set->links.npolled, RSK_EPOLL_POLLED);
	sleep_and_wake();
	rsk_epoll_announce(set);
	rsk_epoll_links_woken(set);
	cr_assert_eq(set->links.npolled, 1);
	put_news(7);
	report(7);
	check_drained();
	cr_assert(entry_of(7)->polled);
	cr_assert_leq(set->links.npolled, 2);
}

/* A thread is cancelled with an event that it has got from the kernel. */
Test(epoll_links, lost_event, .init = begin)
{
	for (int i = 0; i < LINKS; i++)
		cr_assert_eq(add(i), i);
	put_news(LINKS - 1);
	cr_assert(rings[LINKS - 1]);
	rings[LINKS - 1] = false;
	for (int i = 0; i < LINKS; i++)
		rsk_epoll_links_woken(set);
	check_drained();
}

/* With no more links than are polled nothing is announced but for a sleep. */
Test(epoll_links, all_are_polled, .init = begin)
{
	for (int i = 0; i < (int)RSK_EPOLL_POLLED; i++)
		cr_assert_eq(add(i), i);
	cr_assert_eq(set->links.npolled, RSK_EPOLL_POLLED);
	for (int i = 0; i < (int)RSK_EPOLL_POLLED; i++)
		cr_assert_eq(atomic_load(&head_of(i)->asleep), 0);
	cr_assert_eq(rsk_epoll_links_doorbell(&set->links, links[5]), DOORBELL);
	drop(5);
	cr_assert_eq(rsk_epoll_links_doorbell(&set->links, links[5]), -ENOENT);
	cr_assert_eq(add(RSK_EPOLL_POLLED), 5, "its index is used again");
	check();
}

/* Links beyond the limit are refused. (These are some links many times, which no set has.) */
Test(epoll_links, limit, .init = begin)
{
	int at = 0;

	rsk_lock(&family->chain);
	for (uint32_t i = 0; i < RSK_EPOLL_LINKS; i++) {
		cr_assert_eq(rsk_epoll_links_room(&set->links), (int)i);
		rsk_epoll_links_add(set, links[i % LINKS], DOORBELL);
	}
	at = rsk_epoll_links_room(&set->links);
	rsk_unlock(&family->chain);
	cr_assert_eq(at, -E2BIG);
	cr_assert_eq(rsk_epoll_why_not(at), RSK_REASON_EPOLL_PEERS);
	cr_assert(rsk_epoll_links_validate(&set->links));
}
