// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_relay_fallback.c - tests what a relay is given when it starts (relay_fallback.c), and what
 * another process that shares the overread file can read of it at that moment; and a peer that ends
 * before it has repeated what it had said. The relay's process is the test's own:
 * rsk_relay_start() is wrapped.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "over.h"
#include "relay.h"
#include "remote_kit.h"
#include "sockets.h"

#define TEXT "unread"
#define BYTES (sizeof(TEXT) - 1)

static struct {
	int rc;		      /* the result of the wrapped call */
	struct rsk_stream *s; /* another process reads @reads bytes of its file meanwhile */
	size_t reads;
	uint32_t starts;
	size_t down_bytes;
	uint64_t owed;
	char data[64], theirs[64];
	ssize_t got;
} relay;

int __wrap_rsk_relay_start(struct rsk_relay *r, int tcp, int end);
int __wrap_rsk_relay_start(struct rsk_relay *r, int tcp, int end)
{
	relay.starts++;
	relay.down_bytes = r->down_bytes;
	relay.owed = r->owed;
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

/* ---- the relay's loop ---- */

/*
 * The peer ends in order after 5 bytes that it repeats. If it has said that it will repeat more,
 * it was killed before it had: the program is not to take that for the end of the stream.
 */
Test(relay_fall_back, an_end_before_what_the_peer_repeats)
{
	static const uint64_t owed[] = { 0, 5, 6, 5000 };

	for (size_t i = 0; i < sizeof(owed) / sizeof(owed[0]); i++) {
		struct rsk_relay *r = rsk_relay_new(0);
		int peer[2], program[2];
		char text[16];

		cr_assert_not_null(r);
		r->owed = owed[i];
		tcp_pair(peer);
		tcp_pair(program);
		cr_assert_eq(send(peer[0], "12345", 5, 0), 5);
		shutdown(peer[0], SHUT_WR);
		shutdown(program[0], SHUT_WR);
		rsk_relay_run(r, peer[1], program[1]);
		cr_assert_eq(recv(program[0], text, sizeof(text), 0), 5);
		errno = 0;
		cr_assert_eq(recv(program[0], text, sizeof(text), 0), owed[i] > 5 ? -1 : 0);
		cr_assert_eq(errno, owed[i] > 5 ? ECONNRESET : 0);
		rsk_relay_free(r);
		close(peer[0]);
		close(peer[1]);
		close(program[0]);
	}
}

/* What the relay is told: the ring's bytes never come by the TCP socket. */
Test(relay_fall_back, how_much_is_to_be_repeated)
{
	static const struct {
		uint64_t to, ring, owed;
	} cases[] = { { 99, 100, 0 }, { 100, 100, 0 }, { 107, 100, 7 } };
	const struct rsk_leaving l = { .kernel = true };
	struct kit_stream ks;
	struct kit k;

	ks = with_file(&k);
	relay.rc = -EAGAIN; /* nothing is taken, and it can be asked again */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ks.s->rx.rail_loss.owed = RSK_RX_OWED_TO;
		ks.s->rx.rail_loss.owed_to = cases[i].to;
		ks.s->rx.ring_bytes = cases[i].ring;
		cr_assert_eq(rsk_stream_relay(ks.s, ks.fd, RSK_REASON_PASSED, &l), -EAGAIN);
		cr_assert_eq(relay.owed, cases[i].owed, "%zu", i);
	}
	cr_assert_eq(relay.starts, 3);
}
