// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_member_json.c - tests how the entry of a cluster's member is read: one that is valid, and
 * what is refused as unreadable.
 */
#include "member_json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "/rsock/members/"
#define RNIC                                                                                       \
	"{\"name\":\"mlx0\",\"state\":\"up\",\"addresses\":[\"10.0.0.1\"],\"bps\":5,\"sessions\":0}"
#define ENTRY                                                                                      \
	"{\"node\":\"a\",\"id\":\"00ff\",\"version\":\"1\",\"started\":\"now\","                   \
	"\"listens\":[\"10.0.0.1:3935\"],\"pma\":[],\"metrics\":null,\"revision\":7,"              \
	"\"refused\":null,\"rnics\":[" RNIC "]}"

static json_t *row_of(const char *key, const char *value, size_t bytes, uint64_t current)
{
	const struct rsk_etcd_kv kv = { .key = (char *)key,
					.key_bytes = strlen(key),
					.value = (char *)value,
					.value_bytes = bytes };
	json_t *row = rsk_member_row(&kv, strlen(HEAD), current);

	cr_assert_not_null(row);
	return row;
}

static bool is_readable(const char *value)
{
	json_t *row = row_of(HEAD "a", value, strlen(value), 7);
	bool readable = json_is_true(json_object_get(row, "readable"));

	cr_expect_str_eq(json_string_value(json_object_get(row, "node")), "a");
	cr_expect_eq(json_object_size(row), readable ? 11 : 2);
	json_decref(row);
	return readable;
}

/* ENTRY with another text in the place of @from; the caller frees it. */
static char *with(const char *from, const char *to)
{
	const char *at = strstr(ENTRY, from);
	char *out = NULL;

	cr_assert(at, "%s", from);
	cr_assert_geq(asprintf(&out, "%.*s%s%s", (int)(at - ENTRY), ENTRY, to, at + strlen(from)),
		      0);
	return out;
}

Test(member_json, valid)
{
	json_t *row = row_of(HEAD "a", ENTRY, strlen(ENTRY), 7), *rnic;

	cr_assert(json_is_true(json_object_get(row, "readable")));
	cr_assert(json_is_true(json_object_get(row, "current")));
	cr_assert_eq(json_integer_value(json_object_get(row, "revision")), 7);
	cr_assert_null(json_object_get(row, "id"));
	rnic = json_array_get(json_object_get(row, "rnics"), 0);
	cr_assert_str_eq(json_string_value(json_object_get(rnic, "name")), "mlx0");
	json_decref(row);
	row = row_of(HEAD "a", ENTRY, strlen(ENTRY), 8);
	cr_assert(json_is_false(json_object_get(row, "current")));
	json_decref(row);
}

Test(member_json, changes)
{
	static const struct {
		const char *from, *to;
		bool readable;
	} rows[] = {
		{ "\"node\":\"a\"", "\"node\":\"a\",\"later\":{}", true },
		{ "\"refused\":null", "\"refused\":{\"revision\":9,\"why\":\"w\"}", true },
		{ "\"metrics\":null", "\"metrics\":\"10.0.0.1:9\"", true },
		{ "\"node\":\"a\"", "\"node\":\"b\"", false },
		{ "\"node\":\"a\",", "", false },
		{ "\"version\":\"1\"", "\"version\":1", false },
		{ "\"version\":\"1\"", "\"version\":\"\\u001b[2J\"", false },
		{ "\"version\":\"1\"", "\"version\":\"\xc3\xa4\"", false },
		{ "\"started\":\"now\"", "\"started\":null", false },
		{ "[\"10.0.0.1:3935\"]", "\"10.0.0.1:3935\"", false },
		{ "[\"10.0.0.1:3935\"]", "[[]]", false },
		{ "\"pma\":[]", "\"pma\":null", false },
		{ "\"metrics\":null", "\"metrics\":5", false },
		{ "\"revision\":7", "\"revision\":-7", false },
		{ "\"revision\":7", "\"revision\":7.0", false },
		{ "\"revision\":7", "\"revision\":7,\"revision\":8", false },
		{ "\"refused\":null", "\"refused\":[]", false },
		{ "\"refused\":null", "\"refused\":{\"why\":\"w\"}", false },
		{ "\"refused\":null,", "", false },
		{ "\"rnics\":[" RNIC "]", "\"rnics\":null", false },
		{ "\"rnics\":[" RNIC "]", "\"rnics\":[5]", false },
		{ "\"bps\":5", "\"bps\":\"5\"", false },
		{ "\"state\":\"up\",", "", false },
		{ "[\"10.0.0.1\"]", "[0]", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = with(rows[i].from, rows[i].to);

		cr_expect_eq(is_readable(text), rows[i].readable, "%s", text);
		free(text);
	}
	for (const char *p = ENTRY; *p; p++) {
		char *cut = strndup(ENTRY, (size_t)(p - ENTRY));

		cr_expect(!is_readable(cut), "%s", cut);
		free(cut);
	}
}

/* @n times @one, in brackets; the caller frees it. */
static char *list_of(const char *one, size_t n)
{
	char *out = malloc(n * (strlen(one) + 1) + 32), *p = out;

	p = stpcpy(p, "[");
	for (size_t i = 0; i < n; i++)
		p = stpcpy(stpcpy(p, i ? "," : ""), one);
	stpcpy(p, "]");
	return out;
}

static void has_limit(const char *from, const char *one, size_t most)
{
	for (size_t n = most; n <= most + 1; n++) {
		char *list = list_of(one, n), *text = with(from, list);

		cr_expect_eq(is_readable(text), n == most, "%zu of %s", n, one);
		free(list);
		free(text);
	}
}

Test(member_json, limits)
{
	char long_text[RSK_MEMBER_TEXT + 2] = "\"", *text;

	has_limit("[\"10.0.0.1:3935\"]", "\"x\"", RSK_MEMBER_LISTENS);
	has_limit("[\"10.0.0.1\"]", "\"x\"", RSK_MEMBER_ADDRESSES);
	has_limit("[" RNIC "]", RNIC, RSK_MEMBER_RNICS);
	for (size_t n = RSK_MEMBER_TEXT - 1; n <= RSK_MEMBER_TEXT; n++) {
		char quoted[RSK_MEMBER_TEXT + 4];

		memset(long_text, 'x', n);
		long_text[n] = 0;
		snprintf(quoted, sizeof(quoted), "\"%s\"", long_text);
		text = with("\"now\"", quoted);
		cr_expect_eq(is_readable(text), n < RSK_MEMBER_TEXT, "%zu", n);
		free(text);
	}
	/* Blanks in front of it make it too long. */
	for (size_t n = RSK_MEMBER_BYTES; n <= RSK_MEMBER_BYTES + 1; n++) {
		text = malloc(n + 1);
		memset(text, ' ', n);
		memcpy(text + n - strlen(ENTRY), ENTRY, sizeof(ENTRY));
		cr_expect_eq(is_readable(text), n == RSK_MEMBER_BYTES, "%zu", n);
		free(text);
	}
}

Test(member_json, keys)
{
	static const struct {
		const char *key, *node;
	} rows[] = { { HEAD "x\x1b[2J\xff/y", "x?[2J?/y" }, { HEAD, "" }, { "/r", "" } };
	char long_key[2000] = HEAD;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *row = row_of(rows[i].key, ENTRY, strlen(ENTRY), 7);

		cr_expect_str_eq(json_string_value(json_object_get(row, "node")), rows[i].node);
		cr_expect(json_is_false(json_object_get(row, "readable")));
		json_decref(row);
	}
	memset(long_key + strlen(HEAD), 'k', 1900);
	json_decref(row_of(long_key, ENTRY, strlen(ENTRY), 7));
}

Test(member_json, whose_it_is)
{
	static const struct {
		const char *value;
		bool is;
	} rows[] = {
		{ ENTRY, true },
		{ "{\"id\":\"00ff\"}", true },
		{ "{\"id\":\"00fe\"}", false },
		{ "{\"id\":5}", false },
		{ "[]", false },
		{ "", false },
		{ "{\"id\":\"00ff\"", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rsk_etcd_kv kv = { .value = (char *)rows[i].value,
						.value_bytes = strlen(rows[i].value) };

		cr_expect_eq(rsk_member_is_of(&kv, "00ff"), rows[i].is, "%s", rows[i].value);
	}
}
