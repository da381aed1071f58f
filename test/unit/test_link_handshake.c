// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_link_handshake.c - tests which link to another host an answer of rsockd belongs to, and what
 * rsockd is told of a link that is refused.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rsock/local.h>
#include <rsock/reason.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local.h"
#include "local_say.h"
#include "pairing.h"
#include "remote.h"
#include "remote_kit.h"

#define HANDLE 77
#define TRIES 3 /* of a link's first rail */

static void asks(struct kit *k)
{
	kit_link(k, false);
	k->r->target.handle = HANDLE;
	k->r->waits_verdict = true;
}

static bool answer(void)
{
	bool taken;

	rsk_pairing_take();
	taken = rsk_link_handshake_ops.answered(HANDLE, RSK_REASON_MAPPED);
	rsk_pairing_give();
	return taken;
}

/* The peer's control connection is lost, and it comes again with the same mapping. */
Test(link_handshake, an_answer_is_not_for_a_link_that_has_ended)
{
	struct kit first, again;

	kit_init();
	asks(&first);
	asks(&again);
	rsk_remote_dead(first.r, -ECONNRESET);
	cr_assert(answer());
	cr_assert_eq(first.r->verdict, 0);
	cr_assert_eq(again.r->verdict, RSK_REASON_MAPPED + 1);
	cr_assert_not(answer(), "nobody has asked");
}

/* ---- a link that is refused ---- */

static int rsockd; /* its end of the connection to it */

/* A link that is being made, and a stream with the mapping HANDLE that waits for it. */
static struct kit_stream waits(struct kit *k)
{
	struct kit_stream ks;
	int control[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, control), 0);
	rsk_rsockd.fd = control[0];
	rsk_rsockd.shown = true; /* it has had HELLO */
	rsockd = control[1];
	kit_link(k, true);
	ks = kit_connected();
	atomic_store(&ks.s->phase, RSK_PHASE_LOOKUP);
	ks.s->pairing.mapping = HANDLE;
	ks.s->pairing.found.remote = true;
	ks.s->pairing.found.nonce = k->r->nonce;
	return ks;
}

static void rail_fails(struct kit *k, int err)
{
	rsk_remote_rail_begin(&k->r->rail[0]);
	for (int i = 0; i < TRIES; i++) {
		cr_assert(kit_connecting(k, 0));
		kit_rail_down(k, 0, err);
	}
	cr_assert_eq(k->r->state, RSK_REMOTE_DEAD);
}

/* Number of messages of that type about the mapping; *flags: of the last one. */
static int told(enum rsk_local_type type, uint32_t *flags)
{
	struct rsk_local_msg m;
	int n = 0;

	while (recv(rsockd, &m, sizeof(m), 0) == sizeof(m))
		if (m.type == type && m.link == HANDLE) {
			*flags = m.flags;
			n++;
		}
	return n;
}

static void is_told(const struct kit_stream *ks)
{
	struct rsk_local_msg m;

	cr_assert_eq(recv(rsockd, &m, sizeof(m), 0), sizeof(m));
	cr_assert_eq(m.type, RSK_LOCAL_LINK, "type %u", m.type);
	cr_assert_eq(m.flags, RSK_LOCAL_CONNECTING | RSK_LOCAL_REFUSED);
	cr_assert_eq(m.link, HANDLE);
	cr_assert_eq(m.fd, ks->fd);
	cr_assert_eq(m.tuple.peer_port, ks->s->tuple.peer_port);
	cr_assert_eq(ks->s->pairing.mapping, 0, "given back with that");
	cr_assert_not(ks->s->pairing.found.remote);
	cr_assert_eq(ks->s->rec->reason, RSK_REASON_LINK_ERROR);
}

Test(link_handshake, rsockd_is_told_of_a_rail_that_is_refused)
{
	struct kit k;
	struct kit_stream ks;

	kit_init();
	ks = waits(&k);
	rail_fails(&k, -ECONNREFUSED);
	is_told(&ks);
}

/* The control connection: a TCP reset. */
Test(link_handshake, rsockd_is_told_of_an_address_that_is_refused)
{
	struct kit k;
	struct kit_stream ks;

	kit_init();
	ks = waits(&k);
	k.r->state = RSK_REMOTE_HANDSHAKING;
	rsk_remote_dead(k.r, -ECONNREFUSED);
	is_told(&ks);
}

/* Another error is no refusal; the mapping is given back as ever. */
static void only_given_back(const struct kit_stream *ks)
{
	uint32_t flags;

	cr_assert_eq(told(RSK_LOCAL_LINK, &flags), 0);
	cr_assert_eq(ks->s->pairing.mapping, 0);
	rsk_pairing_take();
	rsk_local_tell();
	rsk_pairing_give();
	cr_assert_eq(told(RSK_LOCAL_UNLINK, &flags), 1);
}

Test(link_handshake, what_is_no_refusal)
{
	static const int no[] = { -ETIMEDOUT, -EHOSTUNREACH, -EACCES, -EPIPE };
	struct kit k;

	kit_init();
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		struct kit_stream ks = waits(&k);

		rail_fails(&k, no[i]);
		only_given_back(&ks);
		close(ks.other);
		close(ks.fd);
	}
}

/* A process that has ended refuses, too, but so do its streams. */
Test(link_handshake, the_process_there_has_ended)
{
	struct kit k;
	struct kit_stream ks;

	kit_init();
	ks = waits(&k);
	close(ks.other);
	rail_fails(&k, -ECONNREFUSED);
	only_given_back(&ks);
}

Test(link_handshake, rsockd_is_gone)
{
	struct kit k;
	struct kit_stream ks;

	kit_init();
	ks = waits(&k);
	rsk_rsockd.fd = -1;
	rail_fails(&k, -ECONNREFUSED);
	cr_assert_eq(ks.s->pairing.mapping, 0);
	cr_assert_not(ks.s->pairing.found.remote);
}
