// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_etcd_msg.c - fuzzes what etcd says with any bytes: the stream of objects is split, and each
 * object is converted as every kind of answer. What is accepted is whole; what is refused leaves
 * nothing behind.
 */
#include "etcd_msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check(int rc, struct rsk_etcd_answer *a)
{
	require(rc == 0 || (rc == -EPROTO && !a->kvs && !a->n));
	for (size_t i = 0; i < a->n; i++) {
		require(a->kvs[i].key && a->kvs[i].value);
		require(!a->kvs[i].key[a->kvs[i].key_bytes]);
		require(!a->kvs[i].value[a->kvs[i].value_bytes]);
	}
	rsk_etcd_answer_free(a);
}

static void convert(const json_t *body)
{
	struct rsk_etcd_answer a;
	const char *token;
	int code;

	check(rsk_etcd_take_range(body, &a), &a);
	check(rsk_etcd_take_txn(body, &a), &a);
	check(rsk_etcd_take_watch(json_object_get(body, "result"), &a), &a);
	token = rsk_etcd_take_token(body);
	require(!token || !strpbrk(token, " \r\n"));
	require(rsk_etcd_take_error(body, &code) != NULL && code >= -1 && code < 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct rsk_json_split s = { 0 };
	size_t at = 0, step, taken = 0;
	json_error_t error;
	json_t *body;
	char *text, *back;
	ssize_t n = 0;

	for (; at < size; at += (size_t)n) {
		s = (struct rsk_json_split){ 0 };
		n = rsk_json_split(&s, bytes + at, size - at);
		if (n <= 0)
			break;
		/* In two pieces it is the same object. */
		step = (size_t)n / 2;
		s = (struct rsk_json_split){ 0 };
		require(!step || rsk_json_split(&s, bytes + at, step) == 0);
		require(rsk_json_split(&s, bytes + at + step, size - at - step) ==
			n - (ssize_t)step);
		body = json_loadb(bytes + at, (size_t)n, JSON_REJECT_DUPLICATES, &error);
		convert(body);
		json_decref(body);
	}
	require(n >= 0 || n == -EPROTO);
	text = rsk_base64_encode(data, size);
	back = text ? rsk_base64_decode(text, &taken) : NULL;
	require(back && taken == size && memcmp(back, data, size) == 0);
	free(text);
	free(back);
	return 0;
}
