// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_services_self.c - tests which services a host tells the others of its cluster: those of its
 * listening sockets, each address once, in order, within limits; and for how long one stays that
 * only lacks resources.
 */
#include "services_self.h"

#include <stdlib.h>

#include "pma_kit.h"

#define SECOND_NS 1000000000ull
#define CONF                                                                                       \
	"node: here\n"                                                                             \
	"rnics:\n"                                                                                 \
	"- {name: one, addresses: [10.0.0.1, 127.0.0.9], sessions: 1}\n"                           \
	"- {name: two, addresses: [10.0.0.2]}\n"                                                   \
	"services:\n- {name: any, ports: ['1-65535']}\n"                                           \
	"rules:\n"                                                                                 \
	"- {name: some, when: {users: ['1000', '1002']}}\n"

static struct rsk_listeners listeners;
static unsigned int measured;

static void measure(void *ctx)
{
	(void)ctx;
	measured++;
}

static struct rsk_services_self self_of(struct rsk_pma *a)
{
	const struct rsk_services_source from = { .pma = a,
						  .listeners = &listeners,
						  .measure = measure };
	struct rsk_pm_addr listen[2] = { { .ipv = 4, .port = 3935 }, { .ipv = 6, .port = 3935 } };
	const struct rsk_conf_daemon conf = { .listen = listen, .n_listen = 2 };
	struct rsk_services_self s;

	rsk_services_self_init(&s, &from, &conf, "n");
	cr_assert_str_eq(s.entry.node, "n");
	cr_assert(s.entry.n_listens == 2 && s.entry.listens[1].ipv == 6 && !s.entry.n);
	return s;
}

/* @last 0: all addresses of the family. */
static void listener(uint8_t last, uint16_t port, uint64_t cookie, uint32_t uid)
{
	struct rsk_listener is = {
		.at = { .ipv = 4, .port = port }, .cookie = cookie, .process = uid, .uid = uid
	};

	if (last)
		memcpy(is.at.ip, (uint8_t[4]){ 10, 0, 0, last }, 4);
	cr_assert_eq(rsk_listeners_add(&listeners, &is), 0);
}

static void end(struct rsk_services_self *s, struct rsk_pma *a)
{
	rsk_services_self_fini(s);
	rsk_listeners_fini(&listeners);
	rsk_pma_free(a);
}

static void is(const struct rsk_services_self *s, size_t i, uint8_t last, uint16_t port,
	       const char *device)
{
	const struct rsk_service *one = &s->entry.services[i];

	cr_expect_eq(one->at.ip[3], last);
	cr_expect_eq(one->at.port, port);
	cr_expect_str_eq(one->device, device);
	cr_expect_str_eq(one->name, "any");
	cr_expect_eq(strlen(one->since), 20);
}

Test(services_self, each_address_once_and_in_order)
{
	struct rsk_pma *a = pma_of(CONF);
	struct rsk_services_self s = self_of(a);
	char since[RSK_SERVICE_NAME];

	cr_assert_eq(rsk_services_self_update(&s, SECOND_NS), 0);
	cr_assert(!s.entry.n && !measured, "nobody listens, and nothing is asked");
	listener(0, 90, 1, 1000);
	listener(2, 80, 2, 1000);
	listener(2, 90, 3, 1000);
	listener(1, 70, 4, 1001); /* no rule for this user */
	listener(2, 70, 5, 1001);
	listener(2, 70, 6, 1000); /* but for one of the two that serve there */
	cr_assert_eq(rsk_services_self_update(&s, 2 * SECOND_NS), 0);
	cr_assert_eq(measured, 1);
	cr_assert_eq(s.entry.n, 4, "not at the loopback address");
	is(&s, 0, 1, 90, "one");
	is(&s, 1, 2, 70, "two");
	is(&s, 2, 2, 80, "two");
	is(&s, 3, 2, 90, "two");
	memcpy(since, s.entry.services[3].since, sizeof(since));
	snprintf(s.entry.services[3].since, RSK_SERVICE_NAME, "2000-01-01T00:00:00Z");
	rsk_listeners_drop(&listeners, 2, 1000);
	cr_assert_eq(rsk_services_self_update(&s, 3 * SECOND_NS), 0);
	cr_assert_eq(s.entry.n, 3);
	cr_assert_str_eq(s.entry.services[2].since, "2000-01-01T00:00:00Z", "since it is there");
	end(&s, a);
}

Test(services_self, stays_for_five_seconds_without_resources)
{
	struct rsk_pma *a = pma_of(CONF);
	struct rsk_services_self s = self_of(a);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.7", "10.0.0.1", 80);
	struct rsk_pma_answer held;

	q.uid = 1000;
	listener(1, 80, 1, 1000);
	held = pma_ask(a, &q);
	pma_is_on(held, "one");
	rsk_services_self_update(&s, 1 * SECOND_NS);
	cr_assert_eq(s.entry.n, 0, "without resources from the beginning");
	rsk_pma_release(a, held.reservation);
	rsk_services_self_update(&s, 2 * SECOND_NS);
	cr_assert_eq(s.entry.n, 1);
	held = pma_ask(a, &q);
	for (uint64_t ns = 3 * SECOND_NS; ns < 7 * SECOND_NS; ns += SECOND_NS) {
		rsk_services_self_update(&s, ns);
		cr_assert_eq(s.entry.n, 1);
		is(&s, 0, 1, 80, "one");
	}
	rsk_services_self_update(&s, 7 * SECOND_NS);
	cr_assert_eq(s.entry.n, 0, "five seconds later");
	rsk_pma_release(a, held.reservation);
	rsk_services_self_update(&s, 8 * SECOND_NS);
	cr_assert_eq(s.entry.n, 1);
	/* That policy or the operator does not want it is no lack. */
	cr_assert_eq(rsk_pma_device_set(a, "one", RSK_PMA_DRAINING), 0);
	rsk_services_self_update(&s, 9 * SECOND_NS);
	cr_assert(s.entry.n == 0 || strcmp(s.entry.services[0].device, "two") == 0);
	end(&s, a);
}

Test(services_self, limits)
{
	struct rsk_pma *a = pma_of(CONF);
	struct rsk_services_self s = self_of(a);
	char *text;

	for (uint16_t i = 0; i < 1000; i++)
		listener(2, (uint16_t)(2000 - i), i + 1u, 1000);
	cr_assert_eq(rsk_services_self_update(&s, SECOND_NS), 0);
	cr_assert_eq(s.entry.n, RSK_SERVICE_MOST);
	cr_assert_eq(s.entry.left_out, 1000 - RSK_SERVICE_MOST);
	is(&s, 0, 2, 1001, "two");
	text = rsk_service_entry_text(&s.entry);
	cr_assert_leq(strlen(text), RSK_SERVICE_BYTES);
	free(text);
	end(&s, a);
}

/*
 * Users take turns: those who listen on very many ports, whether policy maps them or not, take no
 * place of another's, on whichever port.
 */
Test(services_self, one_user_takes_no_place_of_another)
{
	struct rsk_pma *a = pma_of(CONF);
	struct rsk_services_self s = self_of(a);
	size_t theirs = 0;

	for (uint16_t i = 0; i < 1024; i++) {
		listener(2, 1000 + i, i + 1u, 1000);
		listener(2, 3000 + i, i + 2001u, 1001); /* no rule for this user */
	}
	for (uint16_t i = 0; i < 200; i++)
		listener(2, 60000 + i, i + 5001u, 1002);
	cr_assert_eq(rsk_services_self_update(&s, SECOND_NS), 0);
	cr_assert_eq(s.entry.n, RSK_SERVICE_MOST);
	cr_assert_eq(s.entry.left_out, 1024 + 200 - RSK_SERVICE_MOST);
	for (size_t i = 0; i < s.entry.n; i++) {
		theirs += s.entry.services[i].at.port >= 60000;
		cr_assert(!i || s.entry.services[i].at.port > s.entry.services[i - 1].at.port);
	}
	cr_assert_eq(theirs, RSK_SERVICE_MOST / 2);
	end(&s, a);
}
