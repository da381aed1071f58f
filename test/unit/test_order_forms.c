// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_order_forms.c - tests the forms of an index: the setting's text, the tags of each form,
 * every width beyond its wrap, restarts, stop and keep.
 */
#include <stdio.h>

#include "dice.h"
#include "order_kit.h"

/* Compares bytes, padding included: a refused packet changes nothing. */
static bool same(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n) == 0;
}

Test(order_forms, texts)
{
	static const struct {
		const char *text;
		struct rsk_order_form form;
	} good[] = {
		{ "absolute", { RSK_ORDER_ABSOLUTE, 13, false, 1 } },
		{ "relative", { RSK_ORDER_RELATIVE, 12, false, 1 } },
		{ "wrapping", { RSK_ORDER_WRAPPING, 13, false, 1 } },
		{ RSK_ORDER_DEFAULT, { RSK_ORDER_WRAPPING, 13, false, 1 } },
		{ "wrapping:1+stop", { RSK_ORDER_WRAPPING, 1, true, 1 } },
		{ "absolute:09", { RSK_ORDER_ABSOLUTE, 9, false, 1 } },
		{ "relative:4/17+keep", { RSK_ORDER_RELATIVE, 4, false, 17 } },
		{ "relative/65535+stop", { RSK_ORDER_RELATIVE, 12, true, 65535 } },
		{ "relative:12/1", { RSK_ORDER_RELATIVE, 12, false, 1 } },
	};
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "", "begins with" },
		{ "wrap", "begins with" },
		{ "wrappings", "begins with" },
		{ ":13", "begins with" },
		{ "Wrapping", "begins with" },
		{ "wrapping:", "1 to 13 bits" },
		{ "wrapping:0", "1 to 13 bits" },
		{ "wrapping:14", "1 to 13 bits" },
		{ "wrapping:4294967297", "1 to 13 bits" },
		{ "wrapping:99999999999999999999", "1 to 13 bits" },
		{ "wrapping:-1", "1 to 13 bits" },
		{ "relative:13", "1 to 12 bits" },
		{ "relative/0", "1 to 65535" },
		{ "relative/65536", "1 to 65535" },
		{ "relative/", "1 to 65535" },
		{ "wrapping/2", "relative" },
		{ "absolute:3/1", "relative" },
		{ "wrapping:13 ", "expected" },
		{ "wrapping:13+halt", "expected" },
		{ "wrapping+stop+keep", "expected" },
		{ "relative/3:4", "expected" },
		{ "wrapping+", "expected" },
	};
	const struct rsk_order_form untouched = { 2, 7, true, 3 };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct rsk_order_form f = order_form(good[i].text);

		cr_assert_eq(f.kind, good[i].form.kind, "%s", good[i].text);
		cr_assert_eq(f.bits, good[i].form.bits, "%s", good[i].text);
		cr_assert_eq(f.stop, good[i].form.stop, "%s", good[i].text);
		cr_assert_eq(f.every, good[i].form.every, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rsk_order_form f = untouched;
		const char *error = NULL;

		cr_assert_eq(rsk_order_parse(&f, bad[i].text, &error), -EINVAL, "%s", bad[i].text);
		cr_assert(error && strstr(error, bad[i].error), "%s: %s", bad[i].text, error);
		cr_assert(same(&f, &untouched, sizeof(f)), "%s", bad[i].text);
	}
}

static int init(const char *form, uint32_t window, uint32_t cells, uint64_t number, uint64_t place)
{
	struct rsk_order_setup setup = { order_form(form), window, cells, number, place };
	static struct rsk_order_sent sent[RSK_ORDER_WINDOW_MAX];
	static struct rsk_order_element elements[RSK_ORDER_WINDOW_MAX];
	static uint64_t words[RSK_ORDER_WORDS(1024)];
	struct rsk_order_tx tx;
	struct rsk_order_rx rx;
	int rc = rsk_order_tx_init(&tx, &setup, sent);

	cr_assert_eq(rc, rsk_order_rx_init(&rx, &setup, elements, words));
	if (rc == 0)
		cr_assert(rsk_order_tx_validate(&tx) && rsk_order_rx_validate(&rx));
	return rc;
}

Test(order_forms, an_index_too_narrow_for_its_window_is_refused)
{
	cr_assert_eq(init("wrapping:13", 512, 1024, 0, 0), 0);
	cr_assert_eq(init("wrapping:9", 512, 1024, UINT64_MAX / 2, UINT64_MAX / 2), 0);
	cr_assert_eq(init("wrapping:8", 512, 1024, 0, 0), -ERANGE);
	cr_assert_eq(init("relative:8", 512, 1024, 0, 0), -ERANGE);
	cr_assert_eq(init("absolute:8", 512, 1024, 0, 0), -ERANGE);
	cr_assert_eq(init("wrapping:1", 2, 64, 0, 0), 0);
	cr_assert_eq(init("wrapping:1", 1, 64, 0, 0), 0);
	cr_assert_eq(init("wrapping:1", 4, 64, 0, 0), -ERANGE);
	cr_assert_eq(init("absolute:4", 4, 64, 15, 0), 0);
	cr_assert_eq(init("absolute:4", 4, 64, 16, 0), -ERANGE);
	cr_assert_eq(init("wrapping", 0, 64, 0, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 3, 64, 0, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 1024, 1024, 0, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 4, 32, 0, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 4, 96, 0, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 4, 64, UINT64_MAX, 0), -EINVAL);
	cr_assert_eq(init("wrapping", 4, 64, 0, UINT64_MAX), -EINVAL);
}

Test(order_forms, tags)
{
	struct order_packet o[4];
	struct order_pair p;

	order_init(&p, "wrapping:4", 8, 64, 30);
	cr_assert_eq(rsk_order_tx_tag(&p.tx, false), 0);
	order_send(&p, o, 3);
	cr_assert_eq(o[0].tag, 0x8000 | 0x2000 | 14);
	cr_assert_eq(o[1].tag, 0x2000 | 14);
	cr_assert_eq(o[2].tag, 0x4000 | 0x2000 | 14);
	order_send(&p, o, 1);
	cr_assert_eq(o[0].tag, 0x8000 | 0x4000 | 0x2000 | 15);
	order_send(&p, o, 1);
	cr_assert_eq(o[0].tag, 0x8000 | 0x4000 | 0x2000 | 0);
	cr_assert_eq(rsk_order_tx_tag(&p.tx, true), 0);
	order_free(&p);
}

/*
 * Once the first packet of a transaction is acknowledged, the rest of that transaction's packets,
 * and no other's, carry no index.
 */
Test(order_forms, stop)
{
	struct order_packet o[5], b[2];
	struct order_pair p;

	order_init(&p, "wrapping:5+stop", 8, 64, 0);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	o[0] = order_put(&p, 2, false);
	o[1] = order_put(&p, 3, false);
	cr_assert_eq(o[1].tag, RSK_ORDER_INDEXED | 0);
	/* The first packet is not acknowledged, whatever else has arrived. */
	order_see(&p, &o[1]);
	order_take_all(&p);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, o[0].place), 0);
	o[2] = order_put(&p, 1, false);
	cr_assert_eq(o[2].tag, RSK_ORDER_INDEXED | 0);
	order_see(&p, &o[0]);
	order_take_all(&p);
	o[3] = order_put(&p, 1, false);
	cr_assert_eq(o[3].tag, RSK_ORDER_BARE);
	o[4] = order_put(&p, 1, true);
	cr_assert_eq(o[4].tag, RSK_ORDER_BARE | RSK_ORDER_LAST);
	order_send(&p, b, 2);
	cr_assert_eq(b[1].tag, RSK_ORDER_LAST | RSK_ORDER_INDEXED | 1);
	/*
	 * Packets of a higher transaction were seen: they lie above, and do not take the place of a
	 * packet without an index for theirs.
	 */
	order_see(&p, &b[1]);
	order_see(&p, &o[4]);
	order_see(&p, &b[0]);
	order_see(&p, &o[3]);
	cr_assert(order_see(&p, &o[2]).complete);
	order_take_all(&p);
	cr_assert_eq(p.tx.una, 2);
	order_free(&p);
}

Test(order_forms, keep)
{
	struct order_packet o[2];
	struct order_pair p;

	order_init(&p, "wrapping:5+keep", 8, 64, 3);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	o[0] = order_put(&p, 1, false);
	order_see(&p, &o[0]);
	order_take_all(&p);
	o[1] = order_put(&p, 1, true);
	cr_assert_eq(o[1].tag, RSK_ORDER_LAST | RSK_ORDER_INDEXED | 3);
	order_free(&p);
}

static void whole(struct order_pair *p, uint32_t index, bool epoch)
{
	struct order_packet o[2];

	order_send(p, o, 2);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(o[i].tag & RSK_ORDER_INDEX,
			     index | (uint32_t)epoch << p->setup.form.bits);
	order_see(p, &o[1]);
	order_see(p, &o[0]);
}

Test(order_forms, relative_restarts_each_time_everything_is_acknowledged)
{
	struct order_pair p;

	order_init(&p, "relative:3", 4, 64, 1000);
	whole(&p, 0, false);
	whole(&p, 1, false);
	order_take_all(&p);
	whole(&p, 0, true);
	order_take_all(&p);
	whole(&p, 0, false);
	whole(&p, 1, false);
	order_take_all(&p);
	whole(&p, 0, true);
	cr_assert_eq(p.tx.restarts, 3);
	cr_assert_eq(p.rx.next, 1006, "the host keeps the total");
	order_free(&p);
}

Test(order_forms, relative_restarts_every_third_time)
{
	struct order_pair p;

	order_init(&p, "relative:3/3", 4, 64, 0);
	for (uint32_t i = 0; i < 12; i++) {
		whole(&p, i % 3, i / 3 % 2);
		order_take_all(&p);
	}
	cr_assert_eq(p.tx.restarts, 4);
	/* Earlier, if the indexes are used up. */
	order_free(&p);
	order_init(&p, "relative:2/100", 4, 64, 0);
	for (uint32_t i = 0; i < 12; i++) {
		whole(&p, i % 4, i / 4 % 2);
		order_take_all(&p);
	}
	cr_assert_eq(p.tx.restarts, 3);
	order_free(&p);
}

/*
 * If never everything is acknowledged, a relative sender has to wait for that once its indexes are
 * used up.
 */
Test(order_forms, relative_waits_for_the_restart)
{
	struct order_packet o;
	struct order_pair p;

	order_init(&p, "relative:2", 2, 64, 0);
	order_send(&p, &o, 1);
	for (int i = 0; i < 3; i++) {
		struct order_packet next;

		order_send(&p, &next, 1);
		order_see(&p, &o);
		order_take_all(&p);
		o = next;
	}
	cr_assert_eq(p.tx.una, 3);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), -EAGAIN);
	order_see(&p, &o);
	order_take_all(&p);
	whole(&p, 0, true);
	order_free(&p);
}

Test(order_forms, absolute_ends)
{
	struct order_pair p;

	order_init(&p, "absolute:3", 2, 64, 0);
	for (uint32_t i = 0; i < 8; i++) {
		whole(&p, i, false);
		order_take_all(&p);
	}
	cr_assert_eq(rsk_order_tx_begin(&p.tx), -EOVERFLOW);
	order_check(&p);
	order_free(&p);
}

Test(order_forms, a_full_window_waits)
{
	struct order_packet o[4], late;
	struct order_pair p;

	order_init(&p, "wrapping:2", 4, 64, 0);
	for (int i = 0; i < 4; i++)
		order_send(&p, &o[i], 1);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), -EAGAIN);
	for (int i = 3; i > 0; i--) {
		order_see(&p, &o[i]);
		order_take_all(&p);
		cr_assert_eq(rsk_order_tx_begin(&p.tx), -EAGAIN, "the lowest one is open");
	}
	order_see(&p, &o[0]);
	order_take_all(&p);
	cr_assert_eq(p.tx.una, 4);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), -EBUSY);
	late = order_put(&p, 1, true);
	order_see(&p, &late);
	order_free(&p);
}

/* The packets arrive, in any order. */
static void see_shuffled(struct order_pair *p, struct order_packet *all, uint32_t n, uint64_t *dice)
{
	for (uint32_t i = n; i > 0; i--) {
		uint32_t k = (uint32_t)(dice_roll(dice) % i);
		struct order_packet o = all[k];

		all[k] = all[i - 1];
		order_see(p, &o);
	}
}

/*
 * One window of transactions at a time, their packets shuffled, through many wraps of the index and
 * of the ring.
 */
static void shuffled(const char *text, uint64_t seed)
{
	struct rsk_order_form form = order_form(text);
	uint64_t span = rsk_order_span(&form), dice = seed;
	uint32_t window = span < RSK_ORDER_WINDOW_MAX ? (uint32_t)span : RSK_ORDER_WINDOW_MAX;
	uint64_t rounds = form.kind == RSK_ORDER_ABSOLUTE ? span / window : 3 * span / window + 4;
	struct order_packet *all = malloc(3 * window * sizeof(*all));
	struct order_pair p;

	order_init(&p, text, window, 4096, 0);
	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < window; i++) {
			uint32_t packets = 1 + (uint32_t)(dice_roll(&dice) % 3);

			cr_assert_eq(rsk_order_tx_begin(&p.tx), 0, "%s, seed %" PRIu64, text, seed);
			for (uint32_t k = 0; k < packets; k++) {
				all[n++] = order_put(&p, 1, k + 1 == packets);
				/*
				 * Now and then the first packet is acknowledged before the second
				 * is put, and all before it.
				 */
				if (!k && packets > 1 && dice_roll(&dice) % 8 == 0) {
					see_shuffled(&p, all, n, &dice);
					order_take_all(&p);
					n = 0;
				}
			}
		}
		see_shuffled(&p, all, n, &dice);
		cr_assert_eq(p.rx.next, p.tx.next);
		cr_assert_eq(p.rx.low, p.tx.next, "%s, seed %" PRIu64, text, seed);
		order_take_all(&p);
	}
	cr_assert_eq(p.rx.completed, rounds * window);
	cr_assert(form.kind == RSK_ORDER_ABSOLUTE || p.rx.completed > 3 * span);
	order_free(&p);
	free(all);
}

static void every_width(const char *name, uint32_t bits_max)
{
	uint64_t seed = dice_seed(name);
	char text[32];

	for (uint32_t bits = 1; bits <= bits_max; bits++)
		for (int stop = 0; stop < 2; stop++) {
			snprintf(text, sizeof(text), "%s:%" PRIu32 "%s", name, bits,
				 stop ? "+stop" : "+keep");
			shuffled(text, seed + bits);
		}
}

Test(order_forms, wrapping_at_every_width)
{
	every_width("wrapping", RSK_ORDER_BITS_MAX);
}

Test(order_forms, absolute_at_every_width)
{
	every_width("absolute", RSK_ORDER_BITS_MAX);
}

Test(order_forms, relative_at_every_width)
{
	every_width("relative", RSK_ORDER_BITS_MAX - 1);
}
