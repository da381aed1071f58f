// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_link_handshake.c - tests what rsockd is told of a link to another host that is refused, and
 * from where a link may come.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rsock/local.h>
#include <rsock/reason.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local.h"
#include "local_say.h"
#include "pairing.h"
#include "pm_transaction.h"
#include "remote.h"
#include "remote_kit.h"

#define HANDLE 77
#define TRIES 3 /* of a link's first rail */

static const struct rsk_verbs_addr announced = { .ip = { 10, 0, 0, 7 }, .family = AF_INET },
				   elsewhere = { .ip = { 10, 0, 0, 8 }, .family = AF_INET };

static bool answer(void)
{
	bool taken;

	rsk_pairing_take();
	taken = rsk_link_handshake_ops.answered(HANDLE, RSK_REASON_MAPPED, announced.ip);
	rsk_pairing_give();
	return taken;
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

/* ---- where it comes from ---- */

/* A peer is admitted, by a mapping that names the address @announced, for our stream @ks. */
static void admitted(struct kit *k, struct kit_stream *ks)
{
	uint32_t flags;

	kit_init();
	kit_candidates_n = 2;
	for (uint32_t i = 0; i < 2; i++)
		kit_candidates[i] = kit_candidate((uint8_t)i, 2, (uint16_t)i);
	*ks = waits(k);
	k->r->initiator = false;
	ks->s->connecting_side = false;
	ks->s->pairing.mapping = 0;
	k->r->target.handle = HANDLE;
	k->r->target.tuple = ks->s->tuple;
	k->r->waits_verdict = true;
	cr_assert(answer());
	cr_assert_eq(told(RSK_LOCAL_UNLINK, &flags), 0);
}

static const struct rsk_verbs_addr *here(uint32_t device)
{
	return &kit_candidates[device].addr;
}

Test(link_handshake, it_comes_from_the_announced_address)
{
	struct rsk_tuple other;
	struct kit_stream ks;
	struct kit k;

	admitted(&k, &ks);
	cr_assert(kit_comes_from(&k, 0, 1, here(0), &announced));
	cr_assert_eq(k.r->rail[0].state, RSK_REMOTE_RAIL_COMING);
	/* A further stream of that host needs no other proof; rsockd is told of one of another. */
	cr_assert_null(rsk_link_handshake_ops.from(k.r->l, &ks.s->tuple));
	other = ks.s->tuple;
	other.peer[3]++;
	cr_assert_arr_eq(rsk_link_handshake_ops.from(k.r->l, &other)->ip, announced.ip, 16);
	k.r->initiator = true;
	cr_assert_null(rsk_link_handshake_ops.from(k.r->l, &other), "it was not accepted here");
}

/* What the accepting end says of a stream whose link exists. */
Test(link_handshake, rsockd_is_told_where_it_has_come_from)
{
	const struct rsk_verbs_addr *const from[] = { &announced, NULL };
	static const uint8_t unknown[16];
	struct kit_stream ks;
	struct rsk_local_msg m;
	struct kit k;

	admitted(&k, &ks);
	for (size_t i = 0; i < 2; i++) {
		cr_assert(rsk_local_link(ks.s, ks.fd, HANDLE, here(0), from[i], 0));
		cr_assert_eq(recv(rsockd, &m, sizeof(m), 0), sizeof(m));
		cr_assert_arr_eq(m.from_ip, i ? unknown : announced.ip, 16);
		cr_assert_arr_eq(m.ip, here(0)->ip, 16);
	}
}

Test(link_handshake, it_comes_from_elsewhere)
{
	struct rsk_remote_msg m;
	struct kit_stream ks;
	uint32_t flags;
	struct kit k;

	admitted(&k, &ks);
	cr_assert_not(kit_comes_from(&k, 0, 1, here(0), &elsewhere));
	cr_assert_eq(k.r->state, RSK_REMOTE_DEAD);
	cr_assert_eq(ks.s->rec->reason, RSK_REASON_OTHER_SOURCE);
	cr_assert_eq(ks.s->pairing.answer.told, RSK_REASON_OTHER_SOURCE);
	cr_assert(kit_hear(&k, &m));
	cr_assert_eq(m.type, RSK_REMOTE_REFUSED);
	cr_assert_eq(m.reason, RSK_REASON_OTHER_SOURCE);
	cr_assert_eq(told(RSK_LOCAL_UNLINK, &flags), 1, "what rsockd holds is given back");
}

/* The source of rail 0 alone is compared: no other rail brings the link up. */
Test(link_handshake, the_first_rail_has_another_number)
{
	struct kit_stream ks;
	struct kit k;

	admitted(&k, &ks);
	cr_assert_not(kit_comes_from(&k, 1, 1, here(1), &elsewhere));
	cr_assert_not(kit_comes_from(&k, 1, 2, here(1), &announced));
	cr_assert_eq(k.r->state, RSK_REMOTE_RAILING);
	cr_assert(kit_comes_from(&k, 0, 1, here(0), &announced));
	cr_assert_not(kit_comes_from(&k, 1, 3, here(1), &elsewhere), "rail 0 is not up yet");
}

/* Who does not know the link's secret does not end it. */
Test(link_handshake, another_s_request_from_elsewhere)
{
	struct kit_stream ks;
	struct kit k;

	admitted(&k, &ks);
	k.r->secret++;
	cr_assert_not(kit_comes_from(&k, 0, k.r->rail[0].generation, here(0), &elsewhere));
	k.r->secret--;
	cr_assert_eq(k.r->state, RSK_REMOTE_RAILING);
	cr_assert(kit_comes_from(&k, 0, 1, here(0), &announced));
}

/* A further rail comes from another device of the peer; the first one as before, whenever. */
Test(link_handshake, rails_of_a_link_that_is_up)
{
	struct rsk_remote_msg rail = { .type = RSK_REMOTE_RAIL };
	struct kit_stream ks;
	struct kit k;

	admitted(&k, &ks);
	cr_assert(kit_comes_from(&k, 0, 1, here(0), &announced));
	rsk_remote_host.up(NULL, &k.r->rail[0]);
	rail.generation = k.r->rail[0].generation;
	rail.epoch = k.r->rail[0].epoch;
	rsk_remote_on_rail(k.r, &rail);
	cr_assert_eq(k.r->state, RSK_REMOTE_UP);
	cr_assert(kit_comes_from(&k, 1, 1, here(1), &elsewhere));
	kit_rail_down(&k, 1, -EPIPE);
	kit_rail_down(&k, 0, -EPIPE);
	cr_assert_eq(k.r->state, RSK_REMOTE_BROKEN);
	cr_assert_not(kit_comes_from(&k, 0, 2, here(0), &elsewhere));
	cr_assert_eq(k.r->state, RSK_REMOTE_BROKEN, "its streams stay");
	cr_assert(kit_comes_from(&k, 0, 3, here(0), &announced));
}

/* The connecting end: the refusal counts as one of the address, and both reasons are shown. */
Test(link_handshake, the_other_end_refuses_where_it_comes_from)
{
	struct rsk_remote_msg no = { .type = RSK_REMOTE_REFUSED,
				     .reason = RSK_REASON_OTHER_SOURCE };
	struct kit_stream ks;
	struct kit k;

	kit_init();
	ks = waits(&k);
	kit_say(&k, no);
	cr_assert_eq(k.r->state, RSK_REMOTE_DEAD);
	is_told(&ks);
	cr_assert_eq(ks.s->rec->peer_reason, RSK_REASON_OTHER_SOURCE);
}

Test(link_handshake, the_other_end_knows_nothing_of_the_mapping)
{
	struct rsk_remote_msg no = { .type = RSK_REMOTE_REFUSED, .reason = RSK_REASON_NOT_HOLDER };
	struct kit_stream ks;
	struct kit k;

	kit_init();
	ks = waits(&k);
	kit_say(&k, no);
	only_given_back(&ks);
	cr_assert_eq(ks.s->rec->peer_reason, RSK_REASON_NOT_HOLDER);
}

/* The other end's reason is that of the last attempt. */
Test(link_handshake, a_stream_that_is_paired_after_a_refusal)
{
	struct rsk_link_msg accept = { .type = RSK_LINK_ACCEPT };
	struct rsk_pm_msg req = { .op = RSK_PM_REQ, .ipv = RSK_PM_IPV4 }, pm;
	struct kit_stream ks;
	struct kit k;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_connected();
	cr_assert_eq(rsk_stream_learn(ks.s, ks.fd), 0);
	ks.s->pairing.mapping = HANDLE;
	ks.s->rec->peer_reason = RSK_REASON_OTHER_SOURCE;
	rsk_pairing_take();
	rsk_pm_transaction_begin(ks.s, ks.fd, k.r->l, -1);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRING);
	accept.sid = ks.s->sid;
	req.assoc_handle = HANDLE;
	req.cp_port = ks.s->tuple.local_port;
	req.ap_port = ks.s->tuple.peer_port;
	memcpy(req.cp_ip, ks.s->tuple.local, 16);
	memcpy(req.ap_ip, ks.s->tuple.peer, 16);
	cr_assert_eq(rsk_pm_msg_accept(&req, req.ap_ip, req.ap_port, 0, &pm), 0);
	rsk_pm_transaction_message(k.r->l, &accept, &pm);
	rsk_pairing_give();
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRED);
	cr_assert_eq(ks.s->rec->peer_reason, RSK_REASON_DIRECT);
}

/* ---- another version ---- */

/* What every version's message begins with, and no more: the rest may be shorter than ours. */
static void says_in_another_version(struct kit *k, struct rsk_remote_msg m)
{
	m.magic = RSK_MAGIC(RSK_REMOTE_LETTERS, RSK_REMOTE_VERSION + 1);
	cr_assert_eq(send(k->peer, &m, RSK_REMOTE_FIXED_BYTES, 0), (ssize_t)RSK_REMOTE_FIXED_BYTES);
	kit_turn(k);
}

Test(link_handshake, the_end_that_accepts_is_of_another_version)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_REFUSED };
	struct kit_stream ks;
	uint32_t flags;
	struct kit k;

	kit_init();
	ks = waits(&k);
	k.r->state = RSK_REMOTE_HANDSHAKING;
	says_in_another_version(&k, m);
	cr_assert_eq(k.r->state, RSK_REMOTE_DEAD);
	cr_assert_eq(ks.s->rec->reason, RSK_REASON_VERSION);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_UNTRACKED, "no other link is tried");
	cr_assert_eq(ks.s->pairing.mapping, 0);
	rsk_pairing_take();
	rsk_local_tell();
	rsk_pairing_give();
	cr_assert_eq(told(RSK_LOCAL_UNLINK, &flags), 1, "and nothing is asked again");
}

/* A stream that accepts, which the HELLO that it returns names. */
static struct rsk_remote_msg comes_to(struct kit *k, struct kit_stream *ks)
{
	struct rsk_remote_msg m = {
		.type = RSK_REMOTE_HELLO, .nonce = 5, .secret = 6, .handle = HANDLE
	};

	*ks = waits(k);
	cr_assert_eq(rsk_stream_learn(ks->s, ks->fd), 0);
	k->r->initiator = false;
	k->r->state = RSK_REMOTE_HANDSHAKING;
	k->r->nonce = 0;
	ks->s->connecting_side = false;
	ks->s->pairing.mapping = 0;
	ks->s->pairing.found.remote = false;
	m.tuple = rsk_tuple_mirror(&ks->s->tuple);
	return m;
}

static void verdict(struct kit *k, uint32_t reason)
{
	rsk_pairing_take();
	cr_assert(rsk_link_handshake_ops.answered(HANDLE, reason, announced.ip));
	rsk_pairing_give();
	rsk_link_handshake_admit(k->r);
	cr_assert_eq(k->r->state, RSK_REMOTE_DEAD);
}

Test(link_handshake, the_end_that_connects_is_of_another_version)
{
	struct rsk_local_msg asked;
	struct rsk_remote_msg m;
	struct kit_stream ks;
	uint32_t flags;
	struct kit k;

	kit_init();
	m = comes_to(&k, &ks);
	says_in_another_version(&k, m);
	cr_assert_eq(k.r->state, RSK_REMOTE_HANDSHAKING, "rsockd is asked first");
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
	cr_assert_eq(recv(rsockd, &asked, sizeof(asked), 0), sizeof(asked));
	cr_assert_eq(asked.type, RSK_LOCAL_LINK);
	verdict(&k, RSK_REASON_MAPPED);
	cr_assert_eq(ks.s->rec->reason, RSK_REASON_VERSION);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_UNTRACKED);
	cr_assert(kit_hear(&k, &m), "the other end is told by our magic");
	cr_assert_eq(m.magic, RSK_REMOTE_MAGIC);
	cr_assert_eq(told(RSK_LOCAL_UNLINK, &flags), 1, "what rsockd holds is given back");
}

/* Nobody but a peer to which the stream is mapped keeps it on TCP by this. */
Test(link_handshake, another_version_without_a_mapping)
{
	struct rsk_remote_msg m;
	struct kit_stream ks;
	struct kit k;

	kit_init();
	m = comes_to(&k, &ks);
	says_in_another_version(&k, m);
	verdict(&k, RSK_REASON_NOT_HOLDER);
	cr_assert_neq(ks.s->rec->reason, RSK_REASON_VERSION);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
}

Test(link_handshake, another_version_that_is_no_hello)
{
	static const struct rsk_tuple none;
	struct kit_stream ks;

	kit_init();
	for (int i = 0; i < 4; i++) {
		struct kit k;
		struct rsk_remote_msg m = comes_to(&k, &ks);

		m.type = i == 0 ? RSK_REMOTE_RAIL : m.type;
		m.handle = i == 1 ? 0 : m.handle;
		m.tuple = i == 2 ? none : m.tuple;
		k.r->state = i == 3 ? RSK_REMOTE_RAILING : k.r->state;
		says_in_another_version(&k, m);
		cr_assert_eq(k.r->state, RSK_REMOTE_DEAD, "%d", i);
		cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
		close(ks.other);
		close(ks.fd);
	}
}
