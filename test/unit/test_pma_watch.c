// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_watch.c - tests devices that come and go, the effects of that, what ports carry, and the
 * events that are reported.
 */
#include "pma_kit.h"

#define CP "10.0.0.1"
#define RDMA 'r'

static const char plugged[] =
	"rnics:\n"
	"  - {name: a, ports: [{name: '1', addresses: [10.1.0.1, 10.1.0.11]},\n"
	"     {name: '2', addresses: [10.1.0.2]}]}\n"
	"  - {name: b, addresses: [10.1.0.3], role: spare}\n"
	"  - {name: far, node: other, addresses: [10.1.0.4]}\n"
	"aggregates: [{address: 10.9.0.1, over: [a, b]}, {address: 10.9.0.2, over: [far]}]\n"
	"services: [{name: s, ports: ['1'], high-availability: true}]\n";

/* @ctx: the last bytes of the addresses that are present; RDMA: all others are on links. */
static enum rsk_pma_absence is_here(void *ctx, const struct rsk_pm_addr *ip)
{
	if (strchr(ctx, ip->ip[3]))
		return RSK_PMA_THERE;
	return strchr(ctx, RDMA) ? RSK_PMA_NO_RDMA : RSK_PMA_NO_LINK;
}

Test(pma_watch, ports_are_there_as_their_host_says)
{
	struct rsk_pma *a = pma_of(plugged);
	char all[] = "\1\2\3", others[] = "\13\3", none[] = "";

	rsk_pma_listen(a, pma_hear_event, NULL);
	rsk_pma_hotplug(a, is_here, all);
	pma_is_heard("");
	/* One of a port's addresses is enough; the spare takes the place of what is gone. */
	rsk_pma_hotplug(a, is_here, others);
	pma_is_heard("a/2 down\n");
	cr_assert(pma_view(a, "a/2").absent && pma_view(a, "a/2").state == RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.2", 1), "a/1");
	rsk_pma_hotplug(a, is_here, none);
	pma_is_heard("a/1 down\nb down\n");
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 1).verdict, RSK_PMA_NO_DEVICE);
	/* Another node's addresses are not checked. */
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.2", 1), "far");
	rsk_pma_hotplug(a, is_here, others + 1);
	pma_is_heard("b up\n");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "b");
	rsk_pma_hotplug(a, NULL, NULL);
	pma_is_heard("a/1 up\na/2 up\n");
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_UP), 3);
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_DOWN), 3);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma_watch, an_operator_s_word_and_the_host_s)
{
	struct rsk_pma *a = pma_of(plugged);
	char all[] = "\1\2\3", less[] = "\2\3";

	rsk_pma_listen(a, pma_hear_event, NULL);
	rsk_pma_device_set(a, "a", RSK_PMA_DRAINING);
	pma_is_heard("a/1 draining\na/2 draining\n");
	rsk_pma_hotplug(a, is_here, less);
	pma_is_heard("a/1 down\n");
	/*
	 * An absent device stays down, whatever state is set; that state applies when it is back.
	 */
	rsk_pma_device_set(a, "a", RSK_PMA_UP);
	pma_is_heard("a/2 up\n");
	cr_assert_eq(pma_view(a, "a/1").state, RSK_PMA_DOWN);
	rsk_pma_device_set(a, "a/1", RSK_PMA_DRAINING);
	pma_is_heard("");
	rsk_pma_hotplug(a, is_here, all);
	pma_is_heard("a/1 draining\n");
	cr_assert(!pma_view(a, "a/1").absent && pma_view(a, "a/1").state == RSK_PMA_DRAINING);
	rsk_pma_device_set(a, "a/1", RSK_PMA_DOWN);
	pma_is_heard("a/1 down\n");
	rsk_pma_hotplug(a, is_here, less);
	rsk_pma_hotplug(a, is_here, all);
	pma_is_heard("");
	rsk_pma_device_set(a, "a/1", RSK_PMA_UP);
	pma_is_heard("a/1 up\n");
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
	rsk_pma_hotplug(a, is_here, less);
	out = pma_ask(a, &q);
	pma_is_on(out, "a/2");
	cr_assert_str_eq(pma_ip(&out), "10.1.0.2");
	q.held = out.reservation;
	rsk_pma_hotplug(a, is_here, all);
	pma_is_on(pma_ask(a, &q), "a/2");
	cr_assert(pma_view(a, "a/1").sessions == 0 && pma_view(a, "a/2").sessions == 1);
	rsk_pma_free(a);
}

/* The reason is of the address that lacks least. */
Test(pma_watch, why_a_port_is_not_there)
{
	struct rsk_pma *a = pma_of(plugged);
	char no_rdma[] = "\13r", no_link[] = "\2", all[] = "\1\2\3";

	rsk_pma_hotplug(a, is_here, no_rdma);
	cr_assert_eq(rsk_pma_absent(a, "a/1"), RSK_PMA_THERE);
	cr_assert_eq(pma_view(a, "a/2").absent, RSK_PMA_NO_RDMA);
	cr_assert_eq(pma_view(a, "a/2").state, RSK_PMA_DOWN);
	cr_assert_eq(rsk_pma_absent(a, "a/2"), RSK_PMA_NO_RDMA);
	cr_assert_eq(rsk_pma_absent(a, "far"), RSK_PMA_THERE, "another node's");
	cr_assert_eq(rsk_pma_absent(a, "none"), RSK_PMA_THERE);
	rsk_pma_hotplug(a, is_here, no_link);
	cr_assert_eq(rsk_pma_absent(a, "a/1"), RSK_PMA_NO_LINK);
	cr_assert_eq(rsk_pma_absent(a, "a/2"), RSK_PMA_THERE);
	rsk_pma_hotplug(a, is_here, all);
	cr_assert_eq(rsk_pma_absent(a, "a/1"), RSK_PMA_THERE);
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
	cr_assert(pma_view(a, "b").absent);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(moved)), 0);
	rsk_pma_hotplug(a, is_here, none);
	cr_assert(!pma_view(a, "b").absent && pma_view(a, "far").absent);
	rsk_pma_release(a, out.reservation);
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
