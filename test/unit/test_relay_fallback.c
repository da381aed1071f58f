// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_relay_fallback.c - tests what a relay is given when it starts (relay_fallback.c), and what
 * another process that shares the overread file can read of it at that moment. The relay's process
 * is the test's own: rsk_relay_start() is wrapped.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "over.h"
#include "relay.h"
#include "remote_kit.h"

#define TEXT "unread"
#define BYTES (sizeof(TEXT) - 1)

static struct {
	int rc;		      /* the result of the wrapped call */
	struct rsk_stream *s; /* another process reads @reads bytes of its file meanwhile */
	size_t reads;
	uint32_t starts;
	size_t down_bytes;
	char data[64], theirs[64];
	ssize_t got;
} relay;

int __wrap_rsk_relay_start(struct rsk_relay *r, int tcp, int end);
int __wrap_rsk_relay_start(struct rsk_relay *r, int tcp, int end)
{
	relay.starts++;
	relay.down_bytes = r->down_bytes;
	memcpy(relay.data, r->data,
	       r->down_bytes < sizeof(relay.data) ? r->down_bytes : sizeof(relay.data));
	if (relay.reads)
		relay.got = read(atomic_load(&relay.s->over.fd), relay.theirs, relay.reads);
	return relay.rc;
}

/* A stream off the ring, with bytes in the overread file. */
static struct kit_stream with_file(struct kit *k)
{
	struct kit_stream ks;

	kit_init();
	kit_link(k, true);
	kit_rail_up(k, 0);
	ks = kit_stream(k, false);
	cr_assert_eq(rsk_over_open(ks.s), 0);
	cr_assert_eq(rsk_over_add(ks.s, TEXT, BYTES), 0);
	rsk_over_seal(ks.s, ks.fd);
	cr_assert_eq(rsk_over_unread(ks.s), BYTES);
	memset(&relay, 0, sizeof(relay));
	relay.s = ks.s;
	return ks;
}

Test(relay_fall_back, each_byte_of_the_file_goes_to_one_reader)
{
	const struct rsk_leaving l = { .kernel = true };
	struct kit_stream ks;
	struct kit k;

	ks = with_file(&k);
	relay.reads = 2;
	cr_assert_eq(rsk_stream_relay(ks.s, ks.fd, RSK_REASON_PASSED, &l), 0);
	cr_assert_eq(relay.starts, 1);
	cr_assert_eq(relay.down_bytes, BYTES);
	cr_assert_arr_eq(relay.data, TEXT, BYTES);
	cr_assert_eq(relay.got, 0, "%zd bytes are had twice", relay.got);
	cr_assert_eq(rsk_over_unread(ks.s), 0);
}

Test(relay_fall_back, a_relay_that_does_not_begin_has_taken_nothing)
{
	const struct rsk_leaving l = { .kernel = true };
	char text[BYTES];
	struct iovec iov = { text, sizeof(text) };
	struct kit_stream ks;
	struct kit k;

	ks = with_file(&k);
	relay.rc = -EAGAIN;
	cr_assert_eq(rsk_stream_relay(ks.s, ks.fd, RSK_REASON_PASSED, &l), -EAGAIN);
	cr_assert_not(rsk_stream_failed(ks.s));
	cr_assert_eq(rsk_over_unread(ks.s), BYTES);
	cr_assert_eq(rsk_over_recv(ks.s, ks.fd, &iov, 1, BYTES, false), (ssize_t)BYTES);
	cr_assert_arr_eq(text, TEXT, BYTES);
}

/* There was no memory for a copy of the slot that was read in part. */
Test(relay_fall_back, no_relay_without_all_of_the_bytes)
{
	const struct rsk_leaving l = { .kernel = true, .again = true, .partial_len = 10 };
	struct kit_stream ks;
	struct kit k;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	memset(&relay, 0, sizeof(relay));
	cr_assert_eq(rsk_stream_relay(ks.s, ks.fd, RSK_REASON_PASSED, &l), -ENOMEM);
	cr_assert_eq(relay.starts, 0);
}
