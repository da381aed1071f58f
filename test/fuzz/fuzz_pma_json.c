// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_pma_json.c - fuzzes the messages of policy agents with any bytes; the first byte selects the
 * message. An accepted one is given to a central agent, or to a local one that waits for it: both
 * stay valid.
 */
#include "pma_json.h"

#include <stdlib.h>
#include <string.h>

#include "conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS 1000000ull

static void require(bool what)
{
	if (!what)
		abort();
}

static struct rsk_pma *agent(void)
{
	static const char text[] =
		"rnics: [{name: r, node: a, addresses: [10.0.0.2], sessions: 9}]\n"
		"services: [{name: s, ports: ['80'], limits: {sessions: 5}}]\n";
	struct rsk_conf *conf;
	char error[200];
	struct rsk_pma *a;

	require(rsk_conf_parse(text, sizeof(text) - 1, &conf, error, sizeof(error)) == 0);
	a = rsk_pma_new(conf);
	require(a != NULL);
	return a;
}

/* Twice each, so that a node that became known by a report may ask. */
static void to_central(json_t *body)
{
	static const struct rsk_central_config config = {
		.lost_ns = MS, .lease_ns = MS, .max_nodes = 2, .max_leases = 9
	};
	static struct rsk_pma_report r;
	struct rsk_ask_item items[RSK_ASK_BATCH];
	struct rsk_central_node *node;
	struct rsk_pma_speaker who;
	uint64_t ids[RSK_ASK_IDS];
	struct rsk_central c;
	struct rsk_pma *pma = agent();
	int n;

	rsk_central_init(&c, &config, pma, 0);
	for (uint64_t now = 0; now < 2; now++) {
		n = rsk_pma_json_take_report(body, &who, &r);
		if (n >= 0) {
			node = rsk_central_report(&c, who.node, who.boot, r.resume, r.part, r.last,
						  r.load, r.devices, r.n_devices, now);
			for (int i = 0; node && i < n; i++)
				rsk_central_resume(&c, node, &r.held[i], now);
		}
		n = rsk_pma_json_take_questions(body, &who, items);
		node = n >= 0 ? rsk_central_report(&c, who.node, who.boot, true, 0, true, 0, NULL,
						   0, now) :
				NULL;
		for (int i = 0; node && i < n; i++)
			rsk_central_decide(&c, node, items[i].id, &items[i].key, now,
					   &items[i].answer);
		if (n >= 0)
			json_decref(rsk_pma_json_answers(items, (size_t)n));
		n = rsk_pma_json_take_ids(body, &who, ids);
		node = n >= 0 ? rsk_central_report(&c, who.node, who.boot, true, 0, true, 0, NULL,
						   0, now) :
				NULL;
		for (int i = 0; node && i < n; i++) {
			rsk_central_confirm(&c, node, ids[i]);
			rsk_central_release(&c, node, ids[i]);
		}
		require(rsk_central_validate(&c) && rsk_pma_validate(pma));
	}
	rsk_central_tick(&c, 5 * MS);
	require(!c.n_grants && rsk_pma_validate(pma));
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

static void said(void *user, uint64_t id, const struct rsk_ask_answer *answer)
{
	++*(int *)user;
	require(id && answer->verdict <= RSK_PMA_REDIRECT);
}

static void to_local(json_t *body)
{
	static struct rsk_ask_item items[RSK_ASK_IDS];
	struct rsk_ask_config config = RSK_ASK_DEFAULT;
	struct rsk_ask_answer answers[RSK_ASK_BATCH];
	struct rsk_ask_key key = { .ap_port = 80, .ipv = 4 };
	uint64_t ids[RSK_ASK_BATCH], hold = MS;
	struct rsk_ask a;
	bool resume, last;
	int told = 0, n;
	size_t count;

	rsk_ask_init(&a, &config);
	require(rsk_ask_next_message(&a, 0, items, &count, &resume, &last) == RSK_ASK_REPORT);
	rsk_pma_json_take_hold(body, &hold);
	rsk_ask_hold(&a, hold);
	rsk_ask_answered(&a, NULL, NULL, 0, 0);
	for (int i = 0; i < 3; i++)
		require(rsk_ask_start(&a, &key, said, &told, 0) == 0);
	require(rsk_ask_next_message(&a, 0, items, &count, &resume, &last) == RSK_ASK_DECIDE);
	n = rsk_pma_json_take_answers(body, ids, answers);
	if (n < 0)
		rsk_ask_failed(&a, 0);
	else
		rsk_ask_answered(&a, ids, answers, (size_t)n, 0);
	require(told == 3 && rsk_ask_validate(&a));
	rsk_ask_tick(&a, UINT64_MAX / 2);
	require(rsk_ask_validate(&a));
	rsk_ask_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *body = size ? rsk_pma_json_read(data + 1, size - 1) : NULL;

	if (!body)
		return 0;
	if (*data == 'c')
		to_central(body);
	else
		to_local(body);
	json_decref(body);
	return 0;
}
