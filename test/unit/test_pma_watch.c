// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_watch.c - tests devices that come and go, the effects of that and of load, and the
 * events that are reported.
 */
#include "pma_kit.h"

#define CP "10.0.0.1"

static const char plugged[] =
	"rnics:\n"
	"  - {name: a, ports: [{name: '1', addresses: [10.1.0.1, 10.1.0.11]},\n"
	"     {name: '2', addresses: [10.1.0.2]}]}\n"
	"  - {name: b, addresses: [10.1.0.3], role: spare}\n"
	"  - {name: far, node: other, addresses: [10.1.0.4]}\n"
	"aggregates: [{address: 10.9.0.1, over: [a, b]}, {address: 10.9.0.2, over: [far]}]\n"
	"services: [{name: s, ports: ['1'], high-availability: true}]\n";

/* @ctx: the last bytes of the addresses that are present. */
static bool is_here(void *ctx, const struct rsk_pm_addr *ip)
{
	return strchr(ctx, ip->ip[3]) != NULL;
}

static char heard[1024];

static void hear_event(void *ctx, enum rsk_pma_event event, const char *device)
{
	static const char *const names[RSK_PMA_EVENTS] = {
		[RSK_PMA_DEVICE_UP] = "up",
		[RSK_PMA_DEVICE_DOWN] = "down",
		[RSK_PMA_DEVICE_DRAINING] = "draining",
		[RSK_PMA_DEVICE_OVERLOAD] = "over",
		[RSK_PMA_DEVICE_RELIEF] = "relief",
		[RSK_PMA_NODE_OVERLOAD] = "over",
		[RSK_PMA_NODE_RELIEF] = "relief",
	};
	size_t n = strlen(heard);

	snprintf(heard + n, sizeof(heard) - n, "%s %s\n", device ? device : "node", names[event]);
}

#define is_heard(text)                                                                             \
	do {                                                                                       \
		cr_assert_str_eq(heard, text);                                                     \
		*heard = 0;                                                                        \
	} while (0)

Test(pma_watch, ports_are_there_as_their_host_says)
{
	struct rsk_pma *a = pma_of(plugged);
	char all[] = "\1\2\3", others[] = "\13\3", none[] = "";

	rsk_pma_listen(a, hear_event, NULL);
	rsk_pma_hotplug(a, is_here, all);
	is_heard("");
	/* One of a port's addresses is enough; the spare takes the place of what is gone. */
	rsk_pma_hotplug(a, is_here, others);
	is_heard("a/2 down\n");
	cr_assert(!pma_view(a, "a/2").there && pma_view(a, "a/2").state == RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.2", 1), "a/1");
	rsk_pma_hotplug(a, is_here, none);
	is_heard("a/1 down\nb down\n");
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 1).verdict, RSK_PMA_NO_DEVICE);
	/* Another node's addresses are not checked. */
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.2", 1), "far");
	rsk_pma_hotplug(a, is_here, others + 1);
	is_heard("b up\n");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "b");
	rsk_pma_hotplug(a, NULL, NULL);
	is_heard("a/1 up\na/2 up\n");
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_UP), 3);
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_DOWN), 3);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma_watch, an_operator_s_word_and_the_host_s)
{
	struct rsk_pma *a = pma_of(plugged);
	char all[] = "\1\2\3", less[] = "\2\3";

	rsk_pma_listen(a, hear_event, NULL);
	rsk_pma_device_set(a, "a", RSK_PMA_DRAINING);
	is_heard("a/1 draining\na/2 draining\n");
	rsk_pma_hotplug(a, is_here, less);
	is_heard("a/1 down\n");
	/*
	 * An absent device stays down, whatever state is set; that state applies when it is back.
	 */
	rsk_pma_device_set(a, "a", RSK_PMA_UP);
	is_heard("a/2 up\n");
	cr_assert_eq(pma_view(a, "a/1").state, RSK_PMA_DOWN);
	rsk_pma_device_set(a, "a/1", RSK_PMA_DRAINING);
	is_heard("");
	rsk_pma_hotplug(a, is_here, all);
	is_heard("a/1 draining\n");
	cr_assert(pma_view(a, "a/1").there && pma_view(a, "a/1").state == RSK_PMA_DRAINING);
	rsk_pma_device_set(a, "a/1", RSK_PMA_DOWN);
	is_heard("a/1 down\n");
	rsk_pma_hotplug(a, is_here, less);
	rsk_pma_hotplug(a, is_here, all);
	is_heard("");
	rsk_pma_device_set(a, "a/1", RSK_PMA_UP);
	is_heard("a/1 up\n");
	rsk_pma_free(a);
}

/*
 * A mapping that is requested again while its device is away gets another address, and stays there.
 */
Test(pma_watch, what_is_held_moves_when_its_port_goes)
{
	struct rsk_pma *a = pma_of(plugged);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 1);
	struct rsk_pma_answer out = pma_ask(a, &q);
	char all[] = "\1\2\3", less[] = "\2\3";

	pma_is_on(out, "a/1");
	q.held = out.reservation;
	cr_assert_neq(rsk_pma_another(a, out.reservation), 0);
	rsk_pma_hotplug(a, is_here, less);
	cr_assert_eq(rsk_pma_another(a, out.reservation), 0, "no more of them there");
	out = pma_ask(a, &q);
	pma_is_on(out, "a/2");
	cr_assert_str_eq(pma_ip(&out), "10.1.0.2");
	q.held = out.reservation;
	rsk_pma_hotplug(a, is_here, all);
	pma_is_on(pma_ask(a, &q), "a/2");
	cr_assert(pma_view(a, "a/1").sessions == 1 && pma_view(a, "a/2").sessions == 1);
	rsk_pma_free(a);
}

/* After a reload devices keep their presence, whatever node the configuration puts them on. */
Test(pma_watch, reload)
{
	static const char moved[] = "rnics:\n"
				    "  - {name: b, node: other, addresses: [10.1.0.3]}\n"
				    "  - {name: far, addresses: [10.1.0.4]}\n"
				    "services: [{name: s, ports: ['1']}]\n";
	struct rsk_pma *a = pma_of(plugged);
	char none[] = "";
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.3", 1);

	rsk_pma_hotplug(a, is_here, none);
	cr_assert_not(pma_view(a, "b").there);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(moved)), 0);
	rsk_pma_hotplug(a, is_here, none);
	cr_assert(pma_view(a, "b").there && !pma_view(a, "far").there);
	rsk_pma_release(a, out.reservation);
	rsk_pma_free(a);
}

/* ---- overload ---- */

static const char loaded[] = "overload: {device-load: 0.8}\n"
			     "rnics:\n"
			     "  - {name: x, addresses: [10.1.0.1], sessions: 10}\n"
			     "  - {name: y, addresses: [10.1.0.2], sessions: 10}\n"
			     "aggregates: [{address: 10.9.0.1, over: [x, y], choose: order}]\n"
			     "services: [{name: s, ports: ['1']}]\n";

static void fill(struct rsk_pma *a, const char *ap, uint64_t *held, int n)
{
	for (int i = 0; i < n; i++)
		held[i] = pma_ask_ap(a, CP, ap, 1).reservation;
}

/* Each session asks again, once. Returns how many have moved. */
static int ask_again(struct rsk_pma *a, const char *ap, uint64_t *held, int n)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, ap, 1);
	int moved = 0;

	for (int i = 0; i < n; i++) {
		struct rsk_pma_answer out;

		q.held = held[i];
		out = pma_ask(a, &q);
		cr_assert_eq(out.verdict, RSK_PMA_MAP);
		moved += out.reservation != held[i];
		held[i] = out.reservation;
	}
	cr_assert(rsk_pma_validate(a));
	return moved;
}

Test(pma_watch, a_device_is_told_of_when_it_crosses)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t held[8];

	rsk_pma_listen(a, hear_event, NULL);
	fill(a, "10.1.0.1", held, 7);
	is_heard("");
	held[7] = rsk_pma_another(a, held[0]);
	is_heard("x over\n");
	cr_assert(pma_view(a, "x").overloaded && !pma_view(a, "y").overloaded);
	/* Relief is reported when the load is well below the limit: 0.72. */
	rsk_pma_release(a, held[7]);
	is_heard("x relief\n");
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(rsk_pma_carried_set(a, "y", i, PMA_LONG_NS), 0);
		rsk_pma_release(a, pma_ask_ap(a, CP, "10.1.0.2", 1).reservation);
	}
	is_heard("");
	rsk_pma_free(a);
}

Test(pma_watch, between_the_two_limits_nothing_changes)
{
	struct rsk_pma *a = pma_of("overload: {device-load: 80%, load: 0.5}\n"
				   "rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 1kbit}]\n"
				   "services: [{name: s, ports: ['1']}]\n");

	rsk_pma_listen(a, hear_event, NULL);
	for (int i = 0; i < 3; i++) {
		rsk_pma_carried_set(a, "x", 799, PMA_LONG_NS);
		is_heard("");
		rsk_pma_carried_set(a, "x", 800, PMA_LONG_NS);
		is_heard("x over\n");
		rsk_pma_carried_set(a, "x", 721, PMA_LONG_NS);
		rsk_pma_carried_set(a, "x", 2000, PMA_LONG_NS);
		is_heard("");
		rsk_pma_carried_set(a, "x", 719, PMA_LONG_NS);
		is_heard("x relief\n");
		rsk_pma_load_set(a, 0.5);
		is_heard("node over\n");
		rsk_pma_load_set(a, 0.46);
		rsk_pma_load_set(a, 7);
		is_heard("");
		rsk_pma_load_set(a, 0.44);
		is_heard("node relief\n");
	}
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_NODE_OVERLOAD), 3);
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_RELIEF), 3);
	/* A reload sets other limits, or none. */
	rsk_pma_carried_set(a, "x", 850, PMA_LONG_NS);
	rsk_pma_load_set(a, 0.6);
	is_heard("x over\nnode over\n");
	cr_assert_eq(rsk_pma_reload(a, pma_conf("overload: {device-load: 1}\n"
						"rnics: [{name: x, addresses: [10.1.0.1],\n"
						"         bandwidth: 1kbit}]\n")),
		     0);
	is_heard("node relief\nx relief\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* What a node's agent reports of a port counts as at once as what this node measures itself. */
Test(pma_watch, a_reported_device_is_told_of_when_it_crosses)
{
	struct rsk_pma *a = pma_of("overload: {device-load: 80%}\n"
				   "rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1]}\n"
				   "  - {name: far, node: other, bandwidth: 1kbit,\n"
				   "     addresses: [10.1.0.4]}\n"
				   "services: [{name: s, ports: ['1']}]\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.4", 1);

	rsk_pma_listen(a, hear_event, NULL);
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 799), 0);
	is_heard("");
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 800), 0);
	is_heard("far over\n");
	cr_assert(pma_view(a, "far").overloaded);
	cr_assert(rsk_pma_validate(a));
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 719), 0);
	is_heard("far relief\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/*
 * New sessions go to another device, and sessions that ask again move until there is relief; then
 * the rest stays.
 */
Test(pma_watch, sessions_leave_what_is_overloaded)
{
	struct rsk_pma *a = pma_of(loaded);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 1);
	uint64_t held[12];

	fill(a, "10.9.0.1", held, 8);
	cr_assert(pma_view(a, "x").sessions == 8 && pma_view(a, "x").overloaded);
	pma_explain(a, &q);
	pma_says("  device x: has room, load 0.8, which is too much\n");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "y");
	cr_assert_eq(ask_again(a, "10.9.0.1", held, 8), 1);
	cr_assert(pma_view(a, "x").sessions == 7 && pma_view(a, "y").sessions == 2);
	cr_assert_eq(ask_again(a, "10.9.0.1", held, 8), 0);
	rsk_pma_free(a);
}

/* Two devices that are both nearly full do not exchange their sessions. */
Test(pma_watch, nothing_goes_to_and_fro)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t x[8], y[8];

	for (int on_y = 5; on_y <= 8; on_y++) {
		int moved = 0;

		fill(a, "10.1.0.1", x, 8);
		fill(a, "10.1.0.2", y, on_y);
		for (int round = 0; round < 10; round++) {
			int n = ask_again(a, "10.9.0.1", x, 8) + ask_again(a, "10.9.0.1", y, on_y);

			cr_assert(!round || !n, "%d on y, round %d: %d moved", on_y, round, n);
			moved += n;
		}
		/* With 7 of 10 a device has room below nine tenths of 8. */
		cr_assert_eq(moved, on_y <= 6, "%d on y: %d moved", on_y, moved);
		for (int i = 0; i < 8; i++) {
			rsk_pma_release(a, x[i]);
			if (i < on_y)
				rsk_pma_release(a, y[i]);
		}
	}
	rsk_pma_free(a);
}

/* An address that is one device's own is changed, too, though the service is not balanced. */
Test(pma_watch, an_own_address_is_changed)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t held[8];

	fill(a, "10.1.0.1", held, 8);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "y");
	cr_assert_eq(ask_again(a, "10.1.0.1", held, 8), 1);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "x");
	rsk_pma_free(a);
}

static const char busy[] = "overload: {load: 0.9, refuse-below-priority: 2, rate: 100Mbit}\n"
			   "rnics:\n"
			   "  - {name: x, addresses: [10.1.0.1]}\n"
			   "  - {name: far, node: other, addresses: [10.1.0.2], order: 1}\n"
			   "aggregates: [{address: 10.9.0.1, over: [x, far]}]\n"
			   "services:\n"
			   "  - {name: low, ports: ['1'], priority: 1, rate: 1Gbit}\n"
			   "  - {name: middle, ports: ['2'], priority: 3}\n"
			   "  - {name: slow, ports: ['3'], priority: 2, rate: 1Mbit}\n"
			   "  - {name: high, ports: ['4'], priority: 4}\n";

/*
 * Best effort is slowed down, the lowest class refused; the high class is not affected. If another
 * node can serve it, it does.
 */
Test(pma_watch, a_node_that_has_too_much_to_do)
{
	struct rsk_pma *a = pma_of(busy);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	struct rsk_pma_answer out = pma_ask(a, &q);
	uint64_t held = out.reservation;

	cr_assert(out.verdict == RSK_PMA_MAP && out.rate_bps == 1000000000);
	rsk_pma_load_set(a, 0.9);
	cr_assert(rsk_pma_overloaded(a));
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_OVERLOAD);
	pma_says("  device x: left out: its node is overloaded (0.9 of 0.9), "
		 "and priority 1 is less than 2\n");
	pma_says("answer: do not map: the node's load is too high\n");
	/* A grant stays until it is given back; requested again, it is refused. */
	q.held = held;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_OVERLOAD);
	cr_assert_eq(pma_view(a, "x").sessions, 1);
	q.ap_port = 2;
	pma_explain(a, &q);
	pma_says("service rate: 100000000 bit/s, since its node is overloaded\n");
	q.ap_port = 3;
	pma_explain(a, &q);
	pma_says("service rate: 1000000 bit/s\n");
	q.ap_port = 1;
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 2).rate_bps, 100000000);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 3).rate_bps, 1000000);
	out = pma_ask_ap(a, CP, "10.1.0.1", 4);
	cr_assert(out.verdict == RSK_PMA_MAP && out.rate_bps == 0);
	/* The CP's side of it is on the same node. */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", CP, 1).verdict, RSK_PMA_OVERLOAD);
	for (uint16_t port = 1; port <= 4; port++) {
		out = pma_ask_ap(a, CP, "10.9.0.1", port);
		pma_is_on(out, "far");
		cr_assert_neq(out.rate_bps, 100000000);
	}
	rsk_pma_load_set(a, 0.8);
	for (uint16_t port = 1; port <= 4; port++)
		pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", port), "x");
	out = pma_ask(a, &q);
	cr_assert(out.verdict == RSK_PMA_MAP && out.reservation == held);
	rsk_pma_free(a);
}

/* ---- what ports carry ---- */

static const char booking[] =
	"rnics:\n"
	"  - {name: x, addresses: [10.1.0.1], bandwidth: 10kbit}\n"
	"  - {name: far, node: other, addresses: [10.1.0.4], bandwidth: 1kbit}\n"
	"services: [{name: s, ports: ['1'], bandwidth: 4kbit}]\n";

static void carried(struct rsk_pma *a, int64_t bps, uint64_t period_ns)
{
	cr_assert_eq(rsk_pma_carried_set(a, "x", bps, period_ns), 0);
	cr_assert(rsk_pma_validate(a));
}

#define is_used(a, carried, others)                                                                \
	do {                                                                                       \
		struct rsk_pma_device_view v = pma_view(a, "x");                                   \
                                                                                                   \
		cr_assert(v.carried_bps == (carried) && v.others_bps == (others), "%lu %lu",       \
			  (unsigned long)v.carried_bps, (unsigned long)v.others_bps);              \
	} while (0)

Test(pma_watch, others_use_what_is_carried_and_not_booked)
{
	struct rsk_pma *a = pma_of(booking);
	struct rsk_pma_answer one, two;

	carried(a, 5000, PMA_LONG_NS);
	is_used(a, 5000, 5000);
	one = pma_ask_ap(a, CP, "10.1.0.1", 1);
	cr_assert_eq(one.verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_EXHAUSTED, "4 + 4 + 5");
	carried(a, 5000, PMA_LONG_NS);
	is_used(a, 5000, 1000);
	two = pma_ask_ap(a, CP, "10.1.0.1", 1);
	cr_assert_eq(two.verdict, RSK_PMA_MAP, "4 + 4 + 1");
	carried(a, 3000, PMA_LONG_NS);
	is_used(a, 3000, 0);
	/* What they carried in the period in which they ended was theirs. */
	rsk_pma_release(a, one.reservation);
	rsk_pma_release(a, two.reservation);
	carried(a, 8500, PMA_LONG_NS);
	is_used(a, 8500, 500);
	carried(a, 8500, PMA_LONG_NS);
	is_used(a, 8500, 8500);
	carried(a, -1, PMA_LONG_NS);
	is_used(a, 0, 0);
	carried(a, INT64_MAX, PMA_LONG_NS);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_EXHAUSTED);
	rsk_pma_free(a);
}

Test(pma_watch, what_is_carried_is_an_average)
{
	struct rsk_pma *a = pma_of(booking);

	carried(a, 1000, 1);
	is_used(a, 1000, 1000); /* the first one counts as it is */
	carried(a, 0, RSK_PMA_CARRIED_TIME_NS);
	is_used(a, 367, 367); /* 1000 / e */
	for (int i = 0; i < 5; i++)
		carried(a, 2000, RSK_PMA_CARRIED_TIME_NS / 5);
	cr_assert(pma_view(a, "x").others_bps >= 1395 && pma_view(a, "x").others_bps <= 1399,
		  "2000 - 1633 / e, in steps");
	for (int i = 0; i < 100; i++)
		carried(a, 0, RSK_PMA_CARRIED_TIME_NS / 5);
	is_used(a, 0, 0);
	/* After a gap the average begins anew. */
	carried(a, 900, 1);
	carried(a, -1, 1);
	is_used(a, 0, 0);
	carried(a, 500, 1);
	is_used(a, 500, 500);
	rsk_pma_free(a);
}
