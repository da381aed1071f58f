// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_registry.c - tests the registry: posting and finding ends, and the place that an offer
 * takes.
 */
#include "registry_kit.h"

TestSuite(registry, .init = setup, .fini = teardown);

Test(registry, post_find_withdraw)
{
	struct rsk_registry mine = opened(), theirs = opened();
	struct rsk_registry_entry e;
	struct rsk_tuple t = tuple_of(7), other;

	cr_assert_eq(find(&theirs, 7, &e), -ENOENT);
	cr_assert_eq(post(&mine, 7, 100), 0);
	cr_assert_eq(find(&theirs, 7, &e), 0);
	cr_assert_eq(e.pid, (uint32_t)getpid());
	cr_assert_eq(e.fd, 10);
	cr_assert_eq(e.nonce, NONCE + 7);
	cr_assert_eq(e.sock_cookie, 1007);
	cr_assert_eq(e.posted_ns, 100);
	cr_assert_eq(rsk_registry_find(&theirs, &t, &e), -ENOENT, "not its own mirror image");
	other = rsk_tuple_mirror(&t);
	other.netns++;
	cr_assert_eq(rsk_registry_find(&theirs, &other, &e), -ENOENT, "another namespace");
	other.netns--;
	other.scope = 3;
	cr_assert_eq(rsk_registry_find(&theirs, &other, &e), 0, "the scope is not its name");
	cr_assert_eq(rsk_registry_withdraw(&mine, &t, 1), -ENOENT, "another's offer stays");
	cr_assert_eq(find(&theirs, 7, &e), 0);
	cr_assert_eq(rsk_registry_withdraw(&mine, &t, NONCE + 7), 0);
	cr_assert_eq(find(&theirs, 7, &e), -ENOENT);
	rsk_registry_close(&mine);
	rsk_registry_close(&theirs);
}

Test(registry, only_we_may_read_it)
{
	struct rsk_registry reg = opened();
	struct stat st;
	char path[160];

	path_of(path, "");
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	path_of(path, "registry");
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(fcntl(reg.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	rsk_registry_close(&reg);
	cr_assert_eq(reg.fd, -1);
}

Test(registry, a_new_offer_replaces_the_old)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry a = offer_of(1, 100), b = a, e;
	struct stat before, after;

	b.fd = 77;
	b.posted_ns = 200;
	cr_assert_eq(rsk_registry_post(&reg, &a), 0);
	cr_assert_eq(rsk_registry_post(&reg, &b), 0);
	cr_assert_eq(find(&reg, 1, &e), 0);
	cr_assert_eq(e.fd, 77);
	/* Posting an identical offer again writes nothing, so its later time is not stored. */
	cr_assert_eq(fstat(reg.fd, &before), 0);
	b.posted_ns = 300;
	cr_assert_eq(rsk_registry_post(&reg, &b), 0);
	cr_assert_eq(fstat(reg.fd, &after), 0);
	cr_assert_eq(find(&reg, 1, &e), 0);
	cr_assert_eq(e.posted_ns, 200);
	cr_assert_eq(before.st_blocks, after.st_blocks);
	rsk_registry_close(&reg);
}

Test(registry, absurd_offers_are_refused)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry e;

	e = offer_of(1, 1);
	e.pid = 0;
	cr_assert_eq(rsk_registry_post(&reg, &e), -EINVAL);
	e = offer_of(1, 1);
	e.fd = -1;
	cr_assert_eq(rsk_registry_post(&reg, &e), -EINVAL);
	e = offer_of(1, 1);
	e.tuple.family = AF_UNIX;
	cr_assert_eq(rsk_registry_post(&reg, &e), -EINVAL);
	e = offer_of(1, 1);
	e.tuple.local[9] = 1;
	cr_assert_eq(rsk_registry_post(&reg, &e), -EINVAL, "bytes behind an IPv4 address");
	e = offer_of(1, 1);
	e.tuple.peer_port = 0;
	cr_assert_eq(rsk_registry_post(&reg, &e), -EINVAL);
	rsk_registry_close(&reg);
}

Test(registry, many)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry e;
	const unsigned int n = 4096;
	unsigned int found = 0;
	struct stat st;

	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(post(&reg, i, i + 1), 0);
	for (unsigned int i = 0; i < n; i++) {
		int err = find(&reg, i, &e);

		cr_assert(err == 0 || err == -ENOENT);
		if (err)
			continue;
		cr_assert_eq(e.user, i, "someone else's entry was found");
		found++;
	}
	/* With the table a quarter full and windows of 8, an offer is hardly ever displaced. */
	cr_assert_geq(found, n - n / 100, "%u of %u", found, n);
	cr_assert_eq(fstat(reg.fd, &st), 0);
	cr_assert_leq(st.st_size, (off_t)RSK_REGISTRY_FILE_BYTES);
	rsk_registry_close(&reg);
}

/* --- the choice of a place --------------------------------------------------------------- */

static uint32_t dead_pid;

static bool alive_but_one(const struct rsk_registry_entry *e)
{
	return e->pid != dead_pid;
}

static void fill(struct rsk_registry_entry *window, uint64_t key, uint32_t place)
{
	for (unsigned int i = 0; i < RSK_REGISTRY_PROBES; i++) {
		window[i] = offer_of(100 + i, 1000 + (i + 3) % RSK_REGISTRY_PROBES);
		window[i].pid = 10 + i;
		rsk_registry_seal(&window[i], key, place + i);
		cr_assert(rsk_registry_validate(&window[i], key, place + i));
	}
}

Test(registry, which_place)
{
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES];
	struct rsk_tuple t = tuple_of(1), own = tuple_of(104);
	const uint64_t key = 99;
	const uint32_t place = 5000;

	fill(window, key, place);
	dead_pid = 0;
	/* Posted times are 1003 ... 1007, 1000, 1001, 1002: the sixth is the oldest. */
	cr_assert_eq(rsk_registry_choose(window, key, place, &t, 2000, alive_but_one), 5);
	/* At a time before most of them, those from the future are displaced first. */
	cr_assert_eq(rsk_registry_choose(window, key, place, &t, 1002, alive_but_one), 0);
	dead_pid = 12;
	cr_assert_eq(rsk_registry_choose(window, key, place, &t, 2000, alive_but_one), 2);
	window[3].user ^= 1; /* torn: treated as free, and preferred to a dead one */
	cr_assert_eq(rsk_registry_choose(window, key, place, &t, 2000, alive_but_one), 3);
	cr_assert_eq(rsk_registry_choose(window, key, place, &own, 2000, alive_but_one), 4);
}

Test(registry, an_entry_is_good_in_its_place_only)
{
	struct rsk_registry_entry e = offer_of(1, 1);
	uint8_t *bytes = (uint8_t *)&e;

	rsk_registry_seal(&e, 42, 17);
	cr_assert(rsk_registry_validate(&e, 42, 17));
	cr_assert(!rsk_registry_validate(&e, 42, 18));
	cr_assert(!rsk_registry_validate(&e, 43, 17));
	for (size_t i = 0; i < sizeof(e) * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		cr_assert(!rsk_registry_validate(&e, 42, 17), "bit %zu does not matter", i);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	cr_assert(rsk_registry_validate(&e, 42, 17));
}

Test(registry, the_newest_of_two_wins)
{
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES] = { 0 };
	struct rsk_tuple t = tuple_of(5);

	window[1] = offer_of(5, 10);
	window[6] = offer_of(5, 20);
	rsk_registry_seal(&window[1], 7, 101);
	rsk_registry_seal(&window[6], 7, 106);
	cr_assert_eq(rsk_registry_match(window, 7, 100, &t), 6);
	window[6].posted_ns = 5;
	rsk_registry_seal(&window[6], 7, 106);
	cr_assert_eq(rsk_registry_match(window, 7, 100, &t), 1);
}

Test(registry, places_lie_in_the_file_and_spread)
{
	unsigned int last = RSK_REGISTRY_ENTRIES - RSK_REGISTRY_PROBES;
	static unsigned int hits[64];

	for (unsigned int i = 0; i < 64000; i++) {
		struct rsk_tuple t = tuple_of(i);
		uint32_t p = rsk_registry_place(12345, &t);

		cr_assert_leq(p, last);
		hits[(uint64_t)p * 64 / (last + 1)]++;
	}
	for (unsigned int i = 0; i < 64; i++)
		cr_assert(hits[i] > 700 && hits[i] < 1300, "bucket %u: %u of 1000", i, hits[i]);
}
