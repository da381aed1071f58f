// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_listeners.c - tests rsockd's table of listeners: an exact match before all others, the
 * newest before older ones, and nothing of a process that is gone.
 */
#include "listeners.h"

#include <errno.h>

#include "dice.h"
#include "pm_msg.h"

static struct rsk_pm_addr at(uint8_t ipv, uint8_t last, uint16_t port)
{
	struct rsk_pm_addr a = { .ipv = ipv, .port = port };

	if (last)
		memcpy(a.ip, (uint8_t[4]){ 10, 0, 0, last }, 4);
	return a;
}

static int add(struct rsk_listeners *l, struct rsk_pm_addr where, uint64_t cookie, uint32_t process)
{
	struct rsk_listener is = { .at = where, .cookie = cookie, .process = process, .uid = 1000 };
	int rc = rsk_listeners_add(l, &is);

	cr_assert(rsk_listeners_validate(l));
	return rc;
}

/* The cookie of the listener at @where; 0: there is none. */
static uint64_t find(const struct rsk_listeners *l, struct rsk_pm_addr where)
{
	const struct rsk_listener *is = rsk_listeners_find(l, &where);

	return is ? is->cookie : 0;
}

struct of_one {
	uint32_t process;
	uint64_t cookie[64];
	size_t n;
};

static void pick(void *ctx, const struct rsk_listener *is)
{
	struct of_one *o = ctx;

	if (is->process == o->process && o->n < 64)
		o->cookie[o->n++] = is->cookie;
}

/* Removes all listeners of a process, one by one. */
static void gone(struct rsk_listeners *l, uint32_t process)
{
	struct of_one o;

	do {
		o = (struct of_one){ .process = process };
		rsk_listeners_each(l, pick, &o);
		for (size_t i = 0; i < o.n; i++)
			rsk_listeners_drop(l, o.cookie[i], process);
	} while (o.n);
}

Test(listeners, an_exact_address_comes_first)
{
	struct rsk_listeners l = { 0 };

	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 11, 1), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 0, 80), 12, 1), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV6, 0, 90), 13, 2), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 11);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 2, 80)), 12);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 81)), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV6, 1, 80)), 0, "all of IPv4 is none of IPv6");
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 90)), 13, "all of IPv6 is all of IPv4, too");
	cr_assert_eq(find(&l, at(RSK_PM_IPV6, 1, 90)), 13);
	cr_assert_eq(l.n, 3);
	rsk_listeners_fini(&l);
}

Test(listeners, the_one_that_registered_last)
{
	struct rsk_listeners l = { 0 };

	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 11, 1), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 12, 2), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 12);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 11, 1), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 11);
	cr_assert_eq(l.n, 2, "the same socket of the same process is one");
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 11, 3), 0);
	cr_assert_eq(l.n, 3, "of another process it is another: a fork");
	gone(&l, 3);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 11);
	gone(&l, 1);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 12);
	gone(&l, 2);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 0);
	cr_assert_eq(l.n, 0);
	cr_assert(rsk_listeners_validate(&l));
	rsk_listeners_fini(&l);
}

Test(listeners, a_socket_that_listens_elsewhere_now)
{
	struct rsk_listeners l = { 0 };

	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 80), 11, 1), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 81), 11, 1), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 80)), 0);
	cr_assert_eq(find(&l, at(RSK_PM_IPV4, 1, 81)), 11);
	rsk_listeners_fini(&l);
}

Test(listeners, no_more_than_so_many_of_one)
{
	struct rsk_listeners l = { 0 };

	for (uint32_t i = 1; i <= RSK_LISTENERS_MOST_OF_ONE; i++)
		cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, (uint16_t)i), i, 1), 0);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 5000), 5000, 1), -ENOSPC);
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 2, 1), 1, 1), 0, "one that was there is no more");
	cr_assert_eq(add(&l, at(RSK_PM_IPV4, 1, 5000), 5000, 2), 0, "another process");
	cr_assert_eq(l.n, RSK_LISTENERS_MOST_OF_ONE + 1);
	gone(&l, 1);
	cr_assert_eq(l.n, 1);
	rsk_listeners_fini(&l);
}

/* ---- against a plain oracle: a list, the newest last ---- */

#define MOST 256

struct oracle {
	struct rsk_listener is[MOST];
	size_t n;
};

static void take_out(struct oracle *o, size_t i)
{
	memmove(o->is + i, o->is + i + 1, (o->n - i - 1) * sizeof(o->is[0]));
	o->n--;
}

static void oracle_add(struct oracle *o, const struct rsk_listener *is)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->is[i].cookie == is->cookie && o->is[i].process == is->process) {
			take_out(o, i);
			break;
		}
	o->is[o->n++] = *is;
}

static void oracle_gone(struct oracle *o, uint32_t process)
{
	for (size_t i = o->n; i--;)
		if (o->is[i].process == process)
			take_out(o, i);
}

static const struct rsk_listener *oracle_find(const struct oracle *o, const struct rsk_pm_addr *to)
{
	static const uint8_t all[16];

	for (size_t i = o->n; i--;)
		if (rsk_pm_addr_equal(&o->is[i].at, to))
			return &o->is[i];
	for (size_t i = o->n; i--;) {
		const struct rsk_pm_addr *a = &o->is[i].at;

		if (a->port == to->port && !memcmp(a->ip, all, 16) &&
		    (a->ipv == to->ipv || a->ipv == RSK_PM_IPV6))
			return &o->is[i];
	}
	return NULL;
}

static struct rsk_pm_addr random_address(uint64_t *dice, bool any)
{
	uint8_t ipv = dice_roll(dice) & 1 ? RSK_PM_IPV4 : RSK_PM_IPV6;
	uint8_t last = (uint8_t)(dice_roll(dice) % 3 + !any);

	return at(ipv, last, (uint16_t)(dice_roll(dice) % 4 + 80));
}

Test(listeners, as_an_oracle_says)
{
	uint64_t dice = dice_seed("listeners"), found = 0;

	for (int round = 0; round < 20; round++) {
		struct rsk_listeners l = { 0 };
		struct oracle o = { .n = 0 };

		for (int step = 0; step < 2000; step++) {
			uint32_t process = (uint32_t)(dice_roll(&dice) % 6) + 1;
			const struct rsk_listener *is, *want;
			struct rsk_pm_addr to;

			if (dice_roll(&dice) % 16) {
				struct rsk_listener new = { .at = random_address(&dice, true),
							    .cookie = dice_roll(&dice) % 40 + 1,
							    .process = process,
							    .uid = process };

				cr_assert_eq(rsk_listeners_add(&l, &new), 0);
				oracle_add(&o, &new);
			} else {
				gone(&l, process);
				oracle_gone(&o, process);
			}
			cr_assert(rsk_listeners_validate(&l));
			cr_assert_eq(l.n, o.n);
			to = random_address(&dice, false);
			is = rsk_listeners_find(&l, &to);
			want = oracle_find(&o, &to);
			cr_assert_eq(!!is, !!want);
			cr_assert(!is || (rsk_pm_addr_equal(&is->at, &want->at) &&
					  is->cookie == want->cookie &&
					  is->process == want->process && is->uid == want->uid));
			found += !!is;
		}
		rsk_listeners_fini(&l);
	}
	cr_assert(found > 1000);
}

struct kernel {
	int asked, most;
	uint64_t gone; /* cookie of the listener that is gone */
};

static enum rsk_listeners_still still(void *ctx, const struct rsk_listener *is)
{
	struct kernel *k = ctx;

	if (k->asked == k->most)
		return RSK_LISTENERS_LATER;
	k->asked++;
	return is->cookie == k->gone ? RSK_LISTENERS_GONE : RSK_LISTENERS_THERE;
}

/*
 * Each listener is checked once in a round, however few at a time; additions and removals in
 * between skip none.
 */
Test(listeners, what_the_kernel_does_not_tell_is_forgotten)
{
	struct rsk_listeners l = { 0 };
	struct kernel k = { .most = 0 };

	for (uint32_t i = 1; i <= 12; i++)
		cr_assert_eq(rsk_listeners_add(&l,
					       &(struct rsk_listener){ .at = at(4, 1, 80 + i / 5),
								       .cookie = i,
								       .process = 7,
								       .uid = 5 }),
			     0);
	for (uint32_t i = 1; i <= 12; i++) {
		k.gone = i;
		/* A round may be half done; two more make one complete round. */
		for (int times = 0; times < 36; times++) {
			k.most = k.asked + 1;
			rsk_listeners_check(&l, still, &k);
			cr_assert(rsk_listeners_validate(&l));
		}
		cr_assert_eq(l.n, 12 - i);
	}
	k = (struct kernel){ .most = 100 };
	rsk_listeners_check(&l, still, &k);
	cr_assert_eq(k.asked, 0);
	rsk_listeners_fini(&l);
}

Test(listeners, one_user_has_so_many)
{
	struct rsk_listeners l = { 0 };
	struct rsk_listener is = { .at = at(4, 1, 80), .uid = 5 };

	for (uint32_t i = 0; i < RSK_LISTENERS_MOST_OF_USER; i++) {
		is.cookie = i + 1;
		is.process = 1 + i / 64;
		cr_assert_eq(rsk_listeners_add(&l, &is), 0);
	}
	is.cookie = is.process = 9999;
	cr_assert_eq(rsk_listeners_add(&l, &is), -ENOSPC);
	is.uid = 6;
	cr_assert_eq(rsk_listeners_add(&l, &is), 0);
	rsk_listeners_fini(&l);
}

Test(listeners, who_is_gone_leaves_what_others_hold)
{
	struct rsk_listeners l = { 0 };
	struct rsk_pm_addr here = at(4, 1, 80);

	for (uint32_t i = 1; i <= 3; i++)
		cr_assert_eq(rsk_listeners_add(&l, &(struct rsk_listener){ .at = here,
									   .cookie = i,
									   .process = i }),
			     0);
	cr_assert(rsk_listeners_hand_over(&l, 2, 9));
	cr_assert_not(rsk_listeners_hand_over(&l, 2, 9));
	cr_assert(l.n == 3 && rsk_listeners_validate(&l));
	gone(&l, 9);
	cr_assert_eq(l.n, 2);
	rsk_listeners_fini(&l);
}
