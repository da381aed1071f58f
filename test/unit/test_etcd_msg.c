// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_etcd_msg.c - tests the messages of etcd's API: base64, requests, answers and what is refused
 * of them, the stream of a watch, and the time between attempts.
 */
#include "etcd_msg.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "base64.h"

Test(etcd_msg, base64)
{
	static const struct {
		const char *bytes, *text;
	} rows[] = {
		/* RFC 4648, section 10 */
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfd?", "//79Pw==" },
	};
	static const char *const wrong[] = { "Z",    "Zg",   "Zg=",  "Zg==Zg==", "=g==",  "Z===",
					     "====", "Zm9%", "Zm9 ", "Zm=v",	 "Zm9v\n" };
	size_t n;
	char *got;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		got = rsk_base64_encode(rows[i].bytes, strlen(rows[i].bytes));
		cr_assert_str_eq(got, rows[i].text);
		free(got);
		got = rsk_base64_decode(rows[i].text, &n);
		cr_assert_not_null(got, "%s", rows[i].text);
		cr_assert_eq(n, strlen(rows[i].bytes));
		cr_assert_str_eq(got, rows[i].bytes);
		free(got);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_null(rsk_base64_decode(wrong[i], &n), "%s", wrong[i]);
}

/* Takes the reference. */
static void is_json(json_t *got, const char *text)
{
	json_t *wanted = json_loads(text, 0, NULL);
	char *said = json_dumps(got, JSON_COMPACT);

	cr_assert_not_null(got, "%s", text);
	cr_expect(json_equal(got, wanted), "%s, not %s", said, text);
	free(said);
	json_decref(wanted);
	json_decref(got);
}

Test(etcd_msg, requests)
{
	json_t *txn = rsk_etcd_txn();

	is_json(rsk_etcd_range(&(struct rsk_etcd_range){ .key = "/a" }), "{\"key\":\"L2E=\"}");
	is_json(rsk_etcd_range(&(struct rsk_etcd_range){ .key = "/a/",
							 .is_prefix = true,
							 .newest_first = true,
							 .keys_only = true,
							 .limit = 5 }),
		"{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"sort_order\":\"DESCEND\","
		"\"sort_target\":\"KEY\",\"keys_only\":true,\"limit\":\"5\"}");
	is_json(rsk_etcd_range(&(struct rsk_etcd_range){ .key = "/a", .last_changed = true }),
		"{\"key\":\"L2E=\",\"sort_order\":\"DESCEND\",\"sort_target\":\"MOD\"}");
	is_json(rsk_etcd_put("/a", "abc", 3, 0), "{\"key\":\"L2E=\",\"value\":\"YWJj\"}");
	is_json(rsk_etcd_put("/a", "", 0, 9), "{\"key\":\"L2E=\",\"value\":\"\",\"lease\":\"9\"}");
	is_json(rsk_etcd_watch("/a", false, 18446744073709551615u),
		"{\"create_request\":{\"key\":\"L2E=\",\"start_revision\":"
		"\"18446744073709551615\"}}");
	cr_assert_eq(rsk_etcd_txn_compare(txn, "/a", 0), 0);
	cr_assert_eq(rsk_etcd_txn_put(txn, rsk_etcd_put("/a", "x", 1, 0)), 0);
	cr_assert_eq(rsk_etcd_txn_delete(txn, rsk_etcd_delete("/a")), 0);
	cr_assert_eq(rsk_etcd_txn_range(txn, NULL), -ENOMEM);
	cr_assert_eq(rsk_etcd_txn_else_range(txn, rsk_etcd_range(
							  &(struct rsk_etcd_range){ .key = "/a" })),
		     0);
	is_json(txn, "{\"compare\":[{\"target\":\"MOD\",\"result\":\"EQUAL\",\"key\":\"L2E=\","
		     "\"mod_revision\":\"0\"}],\"success\":[{\"request_put\":{\"key\":\"L2E=\","
		     "\"value\":\"eA==\"}},{\"request_delete_range\":{\"key\":\"L2E=\"}}],"
		     "\"failure\":[{\"request_range\":{\"key\":\"L2E=\"}}]}");
	is_json(rsk_etcd_lease_grant(10), "{\"TTL\":\"10\"}");
	is_json(rsk_etcd_lease(9223372036854775807), "{\"ID\":\"9223372036854775807\"}");
	is_json(rsk_etcd_authenticate("u", "p"), "{\"name\":\"u\",\"password\":\"p\"}");
}

static json_t *body(const char *text)
{
	json_t *out = json_loads(text, 0, NULL);

	cr_assert_not_null(out, "%s", text);
	return out;
}

Test(etcd_msg, answers)
{
	json_t *b = body("{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"key\":\"YQ==\",\"value\":"
			 "\"YWIA\",\"mod_revision\":\"18446744073709551615\",\"lease\":5}],"
			 "\"count\":\"9\"}");
	struct rsk_etcd_answer a;

	cr_assert_eq(rsk_etcd_take_range(b, &a), 0);
	json_decref(b);
	cr_assert(a.revision == 7 && a.n == 1 && a.kvs[0].lease == 5 && !a.kvs[0].version);
	cr_assert_eq(a.count, 9);
	cr_assert_eq(a.kvs[0].mod_revision, UINT64_MAX);
	cr_assert_str_eq(a.kvs[0].key, "a");
	cr_assert(a.kvs[0].value_bytes == 3 && memcmp(a.kvs[0].value, "ab\0", 4) == 0);
	rsk_etcd_answer_free(&a);
	b = body("{\"header\":{},\"succeeded\":true,\"responses\":[{\"response_put\":{}},"
		 "{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\"}]}},{\"response_range\":{}},"
		 "{\"response_range\":{\"kvs\":[{\"key\":\"Yg==\"}]}}]}");
	cr_assert_eq(rsk_etcd_take_txn(b, &a), 0);
	json_decref(b);
	cr_assert(a.succeeded && a.n == 2 && !a.revision);
	cr_assert_str_eq(a.kvs[1].key, "b");
	rsk_etcd_answer_free(&a);
	b = body("{\"header\":{\"revision\":3},\"created\":true,\"events\":[{\"kv\":{\"key\":"
		 "\"YQ==\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\"}}]}");
	cr_assert_eq(rsk_etcd_take_watch(b, &a), 0);
	json_decref(b);
	cr_assert(a.created && !a.canceled && a.n == 2 && a.revision == 3);
	cr_assert(!a.kvs[0].is_deleted && a.kvs[1].is_deleted);
	rsk_etcd_answer_free(&a);
	b = body("{\"header\":{},\"canceled\":true,\"compact_revision\":\"12\"}");
	cr_assert_eq(rsk_etcd_take_watch(b, &a), 0);
	json_decref(b);
	cr_assert(a.canceled && a.compact_revision == 12 && !a.n);
	rsk_etcd_answer_free(&a);
}

Test(etcd_msg, what_is_no_answer)
{
	static const char *const wrong[] = {
		"[]",
		"{}",
		"{\"header\":5}",
		"{\"header\":{\"revision\":\"\"}}",
		"{\"header\":{\"revision\":\"-1\"}}",
		"{\"header\":{\"revision\":-1}}",
		"{\"header\":{\"revision\":1.5}}",
		"{\"header\":{\"revision\":\"18446744073709551616\"}}",
		"{\"header\":{\"revision\":\"99999999999999999999\"}}",
		"{\"header\":{\"revision\":[]}}",
		"{\"header\":{},\"kvs\":{},\"responses\":{},\"events\":{}}",
		"{\"header\":{},\"kvs\":[5],\"responses\":[{\"response_range\":5}],\"events\":[5]}",
		"{\"header\":{},\"kvs\":[{\"key\":5}],\"events\":[{\"kv\":{\"key\":5}}],\"responses\":5}",
	};
	struct rsk_etcd_answer a;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		json_t *b = body(wrong[i]);

		cr_expect_eq(rsk_etcd_take_range(b, &a), -EPROTO, "%s", wrong[i]);
		cr_expect(!a.kvs && !a.n);
		cr_expect_eq(rsk_etcd_take_txn(b, &a), -EPROTO, "%s", wrong[i]);
		cr_expect_eq(rsk_etcd_take_watch(b, &a), -EPROTO, "%s", wrong[i]);
		json_decref(b);
	}
	cr_expect_eq(rsk_etcd_take_range(NULL, &a), -EPROTO);
	cr_expect_eq(rsk_etcd_take_watch(NULL, &a), -EPROTO);
}

Test(etcd_msg, tokens_and_errors)
{
	static const struct {
		const char *text, *says;
		int code;
	} errors[] = {
		{ "{\"error\":\"a\",\"code\":16,\"message\":\"b\"}", "a", 16 },
		{ "{\"message\":\"b\"}", "b", -1 },
		{ "{\"error\":{\"message\":\"c\",\"grpc_code\":14}}", "c", 14 },
		{ "{\"error\":[],\"code\":1000}", "an error without a message", -1 },
		{ "{\"error\":{\"message\":5,\"grpc_code\":-1}}", "an error without a message",
		  -1 },
	};
	static const char *const tokens[] = { "{}", "{\"token\":\"\"}", "{\"token\":5}",
					      "{\"token\":\"a b\"}", "{\"token\":\"a\\r\\nb\"}" };
	json_t *b;
	int code;

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		b = body(errors[i].text);
		cr_expect_str_eq(rsk_etcd_take_error(b, &code), errors[i].says);
		cr_expect_eq(code, errors[i].code, "%s: %d", errors[i].text, code);
		json_decref(b);
	}
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		b = body(tokens[i]);
		cr_expect_null(rsk_etcd_take_token(b), "%s", tokens[i]);
		json_decref(b);
	}
	b = body("{\"token\":\"abc.12\"}");
	cr_assert_str_eq(rsk_etcd_take_token(b), "abc.12");
	json_decref(b);
}

Test(etcd_msg, leases)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t lease, seconds;
	} rows[] = {
		{ "{\"header\":{},\"ID\":\"7\",\"TTL\":\"10\"}", 0, 7, 10 },
		{ "{\"result\":{\"header\":{},\"ID\":\"7\",\"TTL\":\"3\"}}", 0, 7, 3 },
		{ "{\"result\":{\"header\":{},\"ID\":\"7\"}}", 0, 7, 0 },
		{ "{}", -EPROTO, 0, 0 },
		{ "[]", -EPROTO, 0, 0 },
		{ "{\"result\":5,\"ID\":\"7\"}", -EPROTO, 0, 0 },
		{ "{\"ID\":\"-7\",\"TTL\":\"10\"}", -EPROTO, 0, 0 },
		{ "{\"ID\":\"7\",\"TTL\":\"-1\"}", -EPROTO, 7, 0 },
		{ "{\"ID\":[],\"TTL\":{}}", -EPROTO, 0, 0 },
	};
	uint64_t lease, seconds;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *b = body(rows[i].text);

		cr_expect_eq(rsk_etcd_take_lease(b, &lease, &seconds), rows[i].rc, "%s",
			     rows[i].text);
		cr_expect_eq(lease, rows[i].lease, "%s", rows[i].text);
		cr_expect_eq(seconds, rows[i].seconds, "%s", rows[i].text);
		json_decref(b);
	}
}

/* Whatever the pieces are that it arrives in. */
Test(etcd_msg, stream)
{
	static const char text[] = " {\"a\":\"}{\\\"\\\\\"}\n{\"b\":[{},[]]}\r\n\t{}";
	static const ssize_t ends[] = { 15, 29, 34 };

	for (size_t step = 1; step < sizeof(text); step++) {
		struct rsk_json_split s = { 0 };
		size_t at = 0, found = 0;

		while (at < sizeof(text) - 1) {
			size_t left = sizeof(text) - 1 - at;
			ssize_t n = rsk_json_split(&s, text + at, step < left ? step : left);

			cr_assert_geq(n, 0);
			at += n ? (size_t)n : step < left ? step : left;
			if (n) {
				cr_assert_lt(found, 3);
				cr_assert_eq((ssize_t)at, ends[found], "%zu: %zu", step, at);
				found++;
				s = (struct rsk_json_split){ 0 };
			}
		}
		cr_assert_eq(found, 3, "%zu: %zu", step, found);
	}
	for (const char *p = "]}[5x\"\x80"; *p; p++) {
		struct rsk_json_split s = { 0 };

		cr_assert_eq(rsk_json_split(&s, p, 1), -EPROTO, "%c", *p);
	}
}

Test(etcd_msg, backoff)
{
	cr_assert_eq(rsk_backoff_ns(1, 0), 50000000);
	cr_assert_eq(rsk_backoff_ns(1, 50000000), 100000000);
	cr_assert_eq(rsk_backoff_ns(2, 0), 100000000);
	cr_assert_eq(rsk_backoff_ns(7, 0), 3200000000);
	for (unsigned int failures = 0; failures < 100; failures++)
		for (uint64_t random = 1; random; random *= 3) {
			uint64_t ns = rsk_backoff_ns(failures, random);

			cr_assert(ns >= RSK_BACKOFF_FIRST_NS / 2 && ns <= RSK_BACKOFF_MOST_NS);
			if (random > UINT64_MAX / 3)
				break;
		}
	cr_assert_geq(rsk_backoff_ns(UINT32_MAX, 7), RSK_BACKOFF_MOST_NS / 2);
}

Test(etcd_msg, first_of_what_is_done_again_and_again)
{
	cr_assert_eq(rsk_backoff_first_ns(1000, 0), 500);
	cr_assert_eq(rsk_backoff_first_ns(1000, 500), 1000);
	cr_assert_eq(rsk_backoff_first_ns(1000, 501), 500);
	cr_assert_eq(rsk_backoff_first_ns(0, 7), 0);
}

Test(etcd_msg, looks_at_many_entries_are_rare)
{
	cr_assert_eq(rsk_backoff_look_ns(0), RSK_BACKOFF_LOOK_NS);
	cr_assert_eq(rsk_backoff_look_ns(1023), RSK_BACKOFF_LOOK_NS);
	cr_assert_eq(rsk_backoff_look_ns(10240), 11 * RSK_BACKOFF_LOOK_NS);
	cr_assert_eq(rsk_backoff_look_ns(UINT64_MAX), RSK_BACKOFF_LOOK_MOST_NS);
}
