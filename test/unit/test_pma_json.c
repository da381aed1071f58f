// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_json.c - tests the messages between policy agents: encoding, decoding, and what is
 * refused.
 */
#include "pma_json.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct rsk_pma_speaker me = { "host-a", 0x0123456789abcdef, 4711 };

static struct rsk_ask_item item_of(uint64_t id, uint8_t ipv)
{
	struct rsk_ask_item i = { .id = id, .used = true };

	i.key = (struct rsk_ask_key){ .uid = id % 2 ? 1000 : RSK_PMA_NOBODY,
				      .ap_port = 5201,
				      .ipv = ipv,
				      .side = RSK_PMA_AP,
				      .one = id % 2,
				      .placed = 1 };
	for (size_t k = 0; k < (ipv == 6 ? 16u : 4u); k++)
		i.key.cp_ip[k] = i.key.ap_ip[k] = i.key.at_ip[k] = (uint8_t)(k + id + 32);
	i.answer = (struct rsk_ask_answer){ .verdict = RSK_PMA_MAP,
					    .rule = "any",
					    .device = "mlx0/1",
					    .port = 18515,
					    .pm_time_s = 255,
					    .priority = 7,
					    .dscp = 46,
					    .rate_bps = 1000000000,
					    .need = { 25000000000, 4, 2 },
					    .lease_ns = 5000000000 };
	memcpy(i.answer.ip, i.key.at_ip, 16);
	return i;
}

/* Encodes as text and decodes again. */
static json_t *carried(json_t *body)
{
	char *text = json_dumps(body, JSON_COMPACT);
	json_t *back = rsk_pma_json_read(text, strlen(text));

	cr_assert_not_null(back);
	json_decref(body);
	free(text);
	return back;
}

Test(pma_json, questions_and_answers)
{
	struct rsk_ask_item in[3] = { item_of(1, 4), item_of(2, 6), item_of(INT64_MAX, 4) };
	struct rsk_ask_item out[RSK_ASK_BATCH];
	struct rsk_ask_answer answers[RSK_ASK_BATCH];
	uint64_t ids[RSK_ASK_BATCH];
	struct rsk_pma_speaker who;
	json_t *body = carried(rsk_pma_json_questions(&me, in, 3)), *again;

	cr_assert_eq(rsk_pma_json_take_questions(body, &who, out), 3);
	cr_assert(strcmp(who.node, me.node) == 0 && who.boot == me.boot);
	for (int i = 0; i < 3; i++)
		cr_assert(out[i].id == in[i].id &&
			  !memcmp(&out[i].key, &in[i].key, sizeof(in[i].key)));
	json_decref(body);
	in[2].answer = (struct rsk_ask_answer){ .verdict = RSK_PMA_REDIRECT, .redirect_ipv = 4 };
	in[2].answer.redirect_ip[0] = 10;
	body = carried(rsk_pma_json_answers(in, 3));
	cr_assert_eq(rsk_pma_json_take_answers(body, ids, answers), 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(ids[i], in[i].id);
	for (int i = 0; i < 3; i++)
		in[i].answer = answers[i];
	again = rsk_pma_json_answers(in, 3);
	cr_assert(json_equal(again, body), "as it was");
	json_decref(again);
	json_decref(body);
}

static const struct rsk_port_report reported = {
	.bus = { .bps = 57000000000, .numa = 64 },
	.reach = { { .ip = { 10, 1 }, .ipv = 4, .bits = 16 },
		   { .ip = { 0x20, 1, 0xd, 0xb8 }, .ipv = 6, .bits = 32 },
		   { .ipv = 4, .bits = 0 } },
	.n_reach = 3,
	.qos = RSK_CONF_QOS_BEST_EFFORT,
	.spare = true,
};

/* A report of as many ports as there may be, which say as much as they can, fits into a message. */
Test(pma_json, the_longest_report)
{
	struct rsk_central_device *all = calloc(RSK_CENTRAL_DEVICES, sizeof(*all));
	struct rsk_ask_item *held = calloc(RSK_ASK_BATCH, sizeof(*held));
	json_t *body;

	for (size_t i = 0; i < RSK_CENTRAL_DEVICES; i++) {
		all[i] = (struct rsk_central_device){ .ipv = 6,
						      .state = RSK_PMA_DRAINING,
						      .report = reported };
		memset(all[i].name, 'x', RSK_ASK_NAME - 1);
		memset(all[i].ip, 0xff, 16);
		all[i].sessions = all[i].sessions_max = all[i].bps = INT64_MAX;
		all[i].bps_max = all[i].others_bps = INT64_MAX;
		all[i].report.n_reach = RSK_PORT_REACH_MOST;
		for (size_t k = 0; k < RSK_PORT_REACH_MOST; k++) {
			all[i].report.reach[k] = (struct rsk_conf_prefix){ .ipv = 6, .bits = 128 };
			memset(all[i].report.reach[k].ip, 0xff, 16);
		}
	}
	for (size_t i = 0; i < RSK_ASK_BATCH; i++)
		held[i] = item_of(UINT32_MAX, 6);
	body = rsk_pma_json_report(&me, true, 3, false, 0.25, all, RSK_CENTRAL_DEVICES, held,
				   RSK_ASK_BATCH);
	json_decref(carried(body));
	free(all);
	free(held);
}

Test(pma_json, reports_and_numbers)
{
	struct rsk_ask_item held[2] = { item_of(1, 4), item_of(2, 6) };
	const struct rsk_central_device device = { .name = "mlx0",
						   .ip = { 10, 0, 0, 1 },
						   .ipv = 4,
						   .state = RSK_PMA_DRAINING,
						   .sessions = 1,
						   .sessions_max = 2,
						   .bps = 3,
						   .bps_max = 4,
						   .others_bps = 5,
						   .report = reported };
	static struct rsk_pma_report r;
	uint64_t ids[RSK_ASK_IDS];
	const struct rsk_port_report *got;
	struct rsk_pma_speaker who;
	json_t *body = carried(rsk_pma_json_report(&me, true, 3, false, 0.25, &device, 1, held, 2));
	json_t *again;

	cr_assert_eq(rsk_pma_json_take_report(body, &who, &r), 2);
	cr_assert_eq(who.role, 4711);
	cr_assert(r.resume && !r.last && r.load > 0.24 && r.load < 0.26 && r.n_devices == 1);
	got = &r.devices[0].report;
	cr_assert(got->bus.numa == 64 && got->bus.bps == reported.bus.bps && got->spare);
	cr_assert(got->qos == RSK_CONF_QOS_BEST_EFFORT && got->n_reach == 3);
	again = rsk_pma_json_report(&who, true, r.part, false, r.load, r.devices, 1, r.held, 2);
	cr_assert(json_equal(again, body), "as it was");
	json_decref(again);
	for (int i = 0; i < 2; i++)
		cr_assert(r.held[i].used && r.held[i].answer.need.memory_maps == 4 &&
			  !memcmp(r.held[i].answer.ip, held[i].answer.ip, 16) &&
			  !memcmp(&r.held[i].key, &held[i].key, sizeof(held[i].key)));
	free(r.devices);
	json_decref(body);
	body = carried(rsk_pma_json_ids(&me, held, 2));
	cr_assert_eq(rsk_pma_json_take_ids(body, &who, ids), 2);
	cr_assert(ids[0] == 1 && ids[1] == 2);
	json_decref(body);
}

#define WHO "\"node\":\"a\",\"boot\":\"0123456789abcdef\""
#define QUESTION                                                                                   \
	"\"id\":1,\"side\":\"ap\",\"cp\":\"10.0.0.1\",\"ap\":\"10.0.0.2\",\"port\":80,\"one\":true"
#define DEVICE                                                                                     \
	"\"name\":\"r\",\"ip\":\"10.0.0.1\",\"sessions\":0,\"sessions_max\":0,\"bps\":0,"          \
	"\"bps_max\":0,\"others_bps\":0"
#define REPORT WHO ",\"resume\":true,\"part\":0,\"last\":true,\"load\":0"
#define SAYING(more) "{" REPORT ",\"devices\":[{" DEVICE ",\"state\":\"up\"," more "}],\"held\":[]}"
#define NEED "\"bps\":1,\"memory_maps\":1,\"connections\":1"
/* As long as a name may be, and one byte longer. */
#define LONGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
_Static_assert(sizeof(LONGEST) == RSK_ASK_NAME, "a name of the greatest length");

#define ANSWER                                                                                     \
	"\"rule\":\"\",\"device\":\"\",\"port\":0,\"pm_time\":0,\"priority\":0,\"dscp\":0,"        \
	"\"rate\":0," NEED

#define NAMED(rule)                                                                                \
	"{\"answers\":[{\"id\":1,\"verdict\":\"limit\",\"lease_ms\":0,\"rule\":\"" rule            \
	"\",\"device\":\"\",\"port\":0,\"pm_time\":0,\"priority\":0,\"dscp\":0,\"rate\":0," NEED   \
	"}]}"

static int take_questions(json_t *b)
{
	struct rsk_ask_item items[RSK_ASK_BATCH];
	struct rsk_pma_speaker who;

	return rsk_pma_json_take_questions(b, &who, items);
}

static int take_ids(json_t *b)
{
	uint64_t ids[RSK_ASK_IDS];
	struct rsk_pma_speaker who;

	return rsk_pma_json_take_ids(b, &who, ids);
}

static int take_report(json_t *b)
{
	static struct rsk_pma_report r;
	struct rsk_pma_speaker who;
	int rc;

	r = (struct rsk_pma_report){ 0 };
	rc = rsk_pma_json_take_report(b, &who, &r);
	free(r.devices);
	return rc;
}

static int take_answers(json_t *b)
{
	struct rsk_ask_answer answers[RSK_ASK_BATCH];
	uint64_t ids[RSK_ASK_BATCH];

	return rsk_pma_json_take_answers(b, ids, answers);
}

static int take_hold(json_t *b)
{
	uint64_t ns;

	return rsk_pma_json_take_hold(b, &ns);
}

static const struct {
	int (*take)(json_t *body);
	bool good;
	const char *text;
} table[] = {
	{ take_questions, true, "{" WHO ",\"questions\":[{" QUESTION "}]}" },
	{ take_questions, true, "{" WHO ",\"questions\":[]}" },
	{ take_questions, false, "{" WHO "}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION "}],\"more\":1}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION ",\"more\":1}]}" },
	{ take_questions, false, "{" WHO ",\"questions\":[1]}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION ",\"user\":-1}]}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION ",\"user\":4294967295}]}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION ",\"at\":\"::1\"}]}" },
	{ take_questions, false, "{" WHO ",\"questions\":[{" QUESTION ",\"at\":1}]}" },
	{ take_questions, false, "{\"node\":\"\",\"boot\":\"0123456789abcdef\",\"questions\":[]}" },
	{ take_questions, false,
	  "{\"node\":\"a\",\"boot\":\"0123456789ABCDEF\",\"questions\":[]}" },
	{ take_questions, false,
	  "{\"node\":\"a\",\"boot\":\"0123456789abcdef0\",\"questions\":[]}" },
	{ take_questions, false, "{\"node\":\"a\",\"boot\":5,\"questions\":[]}" },
	{ take_questions, false, "[]" },
	{ take_questions, false, "null" },
	{ take_ids, true, "{" WHO ",\"ids\":[1,9223372036854775807]}" },
	{ take_ids, false, "{" WHO ",\"ids\":[],\"more\":1}" },
	{ take_ids, false, "{" WHO ",\"ids\":[0]}" },
	{ take_ids, false, "{" WHO ",\"ids\":[1.0]}" },
	{ take_ids, false, "{" WHO ",\"ids\":{}}" },
	{ take_report, true,
	  "{" REPORT ",\"devices\":[{" DEVICE ",\"state\":\"up\"}],\"held\":[]}" },
	{ take_report, false,
	  "{" REPORT ",\"devices\":[{" DEVICE ",\"state\":\"on\"}],\"held\":[]}" },
	{ take_report, false, "{" REPORT ",\"devices\":[{" DEVICE "}],\"held\":[]}" },
	{ take_report, true, SAYING("\"bus_bps\":0,\"numa_node\":63,\"spare\":false") },
	{ take_report, true, SAYING("\"class\":\"high\",\"reach\":[\"::/0\",\"10.0.0.1\"]") },
	{ take_report, false, SAYING("\"bus_bps\":-1") },
	{ take_report, false, SAYING("\"bus_bps\":1000000000000001") },
	{ take_report, false, SAYING("\"bus_bps\":null") },
	{ take_report, false, SAYING("\"numa_node\":64") },
	{ take_report, false, SAYING("\"numa_node\":-1") },
	{ take_report, false, SAYING("\"numa_node\":1.0") },
	{ take_report, false, SAYING("\"spare\":1") },
	{ take_report, false, SAYING("\"class\":\"any\"") },
	{ take_report, false, SAYING("\"class\":1") },
	{ take_report, false, SAYING("\"reach\":[]") },
	{ take_report, false, SAYING("\"reach\":\"10.0.0.0/8\"") },
	{ take_report, false, SAYING("\"reach\":[\"10.0.0.1/8\"]") },
	{ take_report, false, SAYING("\"reach\":[\"10.0.0.0/33\"]") },
	{ take_report, false, SAYING("\"reach\":[10]") },
	{ take_report, false,
	  SAYING("\"reach\":[\"::\",\"::\",\"::\",\"::\",\"::\",\"::\",\"::\",\"::\",\"::\"]") },
	{ take_report, false, SAYING("\"order\":1") },
	{ take_report, false, "{" REPORT ",\"devices\":[]}" },
	{ take_report, true,
	  "{" REPORT ",\"devices\":[],\"held\":[{" QUESTION "," NEED
	  ",\"ip\":\"10.0.0.1\",\"used\":false}]}" },
	{ take_report, false,
	  "{" REPORT ",\"devices\":[],\"held\":[{" QUESTION "," NEED
	  ",\"ip\":\"::1\",\"used\":false}]}" },
	{ take_report, false,
	  "{" REPORT ",\"devices\":[],\"held\":[{" QUESTION "," NEED ",\"ip\":\"10.0.0.1\"}]}" },
	{ take_answers, true,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"limit\",\"lease_ms\":0," ANSWER "}]}" },
	{ take_answers, false,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"map\",\"lease_ms\":0," ANSWER "}]}" },
	{ take_answers, false,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"elsewhere\",\"lease_ms\":0," ANSWER "}]}" },
	{ take_answers, false,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"no\",\"lease_ms\":0," ANSWER "}]}" },
	{ take_answers, false,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"limit\",\"lease_ms\":86400001," ANSWER "}]}" },
	{ take_answers, false,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"limit\",\"lease_ms\":0,\"more\":1," ANSWER "}]}" },
	{ take_answers, false, "{\"answers\":[],\"more\":1}" },
	{ take_answers, false, "{\"answers\":[1]}" },
	{ take_answers, true,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"map\",\"lease_ms\":1,\"ip\":\"::1\"," ANSWER
	  "}]}" },
	{ take_answers, true,
	  "{\"answers\":[{\"id\":1,\"verdict\":\"elsewhere\",\"lease_ms\":0,"
	  "\"redirect\":\"::1\"," ANSWER "}]}" },
	{ take_answers, true, NAMED(LONGEST) },
	{ take_answers, false, NAMED(LONGEST "f") },
	{ take_answers, false, "{\"answers\":{}}" },
	{ take_answers, false, "{}" },
	{ take_hold, true, "{\"hold_ms\":1}" },
	{ take_hold, false, "{\"hold_ms\":0}" },
	{ take_hold, false, "{\"hold_ms\":\"1\"}" },
	{ take_hold, false, "{\"hold_ms\":1,\"more\":1}" },
	{ take_hold, false, "[]" },
};

Test(pma_json, what_is_taken_and_what_is_not)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *body = rsk_pma_json_read(table[i].text, strlen(table[i].text));
		int rc = body ? table[i].take(body) : -EBADMSG;

		cr_expect_eq(rc >= 0, table[i].good, "%s", table[i].text);
		cr_expect(rc >= 0 || rc == -EBADMSG, "%d of %s", rc, table[i].text);
		json_decref(body);
	}
}

Test(pma_json, no_more_than_a_message_may_hold)
{
	static struct rsk_ask_item many[RSK_ASK_IDS + 1];
	json_t *body;

	for (size_t i = 0; i < RSK_ASK_IDS + 1; i++)
		many[i] = item_of(i + 1, 4);
	body = rsk_pma_json_questions(&me, many, RSK_ASK_BATCH + 1);
	cr_assert_eq(take_questions(body), -EBADMSG);
	json_decref(body);
	body = rsk_pma_json_ids(&me, many, RSK_ASK_IDS + 1);
	cr_assert_eq(take_ids(body), -EBADMSG);
	json_decref(body);
	cr_assert_null(rsk_pma_json_read("[", 1));
	cr_assert_null(rsk_pma_json_read("{\"a\":1,\"a\":2}", 13));
}
