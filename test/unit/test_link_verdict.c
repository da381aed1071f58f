// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_link_verdict.c - tests which link to another host an answer of rsockd belongs to, which of
 * several links may claim an accepting stream, and that what rsockd holds for a link is given back
 * when the link comes to nothing, unless another link or a stream uses it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rsock/local.h>
#include <rsock/reason.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handshake.h"
#include "local.h"
#include "local_msg.h"
#include "local_say.h"
#include "pairing.h"
#include "pm_transaction.h"
#include "remote.h"
#include "remote_kit.h"
#include "tuple.h"

#define HANDLE 77

static int rsockd; /* its end of the connection to it */

static void begin(void)
{
	int control[2];

	kit_init();
	kit_candidates_n = 1;
	kit_candidates[0] = kit_candidate(0, 2, 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, control), 0);
	rsk_rsockd.fd = control[0];
	rsk_rsockd.shown = true; /* it has had HELLO */
	rsockd = control[1];
}

/* The next message to rsockd is of that type, and about @handle. */
static void says(enum rsk_local_type type, uint64_t handle, struct rsk_local_msg *m)
{
	cr_assert_eq(recv(rsockd, m, sizeof(*m), 0), sizeof(*m));
	cr_assert_eq(m->type, type, "type %u", m->type);
	cr_assert_eq(m->link, handle);
}

static void says_nothing(void)
{
	struct rsk_local_msg m;

	cr_assert_eq(recv(rsockd, &m, sizeof(m), 0), -1, "type %u", m.type);
}

/* A peer's link. */
static void link_of_its_own(struct kit *k)
{
	static uint64_t nonces;

	kit_link(k, false);
	k->r->nonce = ++nonces;
}

/* A peer whose link waits for rsockd's verdict. */
static void asks(struct kit *k)
{
	link_of_its_own(k);
	k->r->target.handle = HANDLE;
	k->r->waits_verdict = true;
	k->r->asked = rsk_rsockd.number;
}

static bool answer(uint32_t reason)
{
	static const uint8_t any[16];
	bool taken;

	rsk_pairing_take();
	taken = rsk_link_handshake_ops.answered(HANDLE, reason, any);
	rsk_pairing_give();
	return taken;
}

static void admitted(struct kit *k)
{
	asks(k);
	cr_assert(answer(RSK_REASON_MAPPED));
}

/* Number of links that are not freed. */
static int links(void)
{
	int n = 0;

	rsk_remotes_reap();
	for (const struct rsk_remote *r = rsk_remotes.all; r; r = r->next)
		n++;
	return n;
}

/* An accepting end that waits for its peer. */
static struct kit_stream accepts(void)
{
	struct kit_stream ks = kit_connected();

	cr_assert_eq(rsk_stream_learn(ks.s, ks.fd), 0);
	ks.s->connecting_side = false;
	atomic_store(&ks.s->phase, RSK_PHASE_LOOKUP);
	return ks;
}

/* ---- whose an answer is ---- */

/* The peer's control connection is lost, and it comes again with the same mapping. */
Test(link_verdict, each_link_has_its_own_answer)
{
	struct kit first, again;

	begin();
	asks(&first);
	rsk_remote_dead(first.r, -ECONNRESET);
	asks(&again);
	cr_assert_eq(links(), 2, "its answer is still to come");
	cr_assert(answer(RSK_REASON_NOT_HOLDER));
	cr_assert_eq(again.r->verdict, 0);
	cr_assert_eq(links(), 1);
	cr_assert(answer(RSK_REASON_MAPPED));
	cr_assert_eq(again.r->verdict, RSK_REASON_MAPPED + 1);
	cr_assert_not(answer(RSK_REASON_MAPPED), "nobody has asked");
	says_nothing();
}

Test(link_verdict, an_answer_that_comes_late)
{
	struct rsk_local_msg m;
	struct kit k;

	begin();
	asks(&k);
	rsk_remote_dead(k.r, -ECONNRESET);
	says_nothing();
	cr_assert(answer(RSK_REASON_MAPPED));
	says(RSK_LOCAL_UNLINK, HANDLE, &m);
	cr_assert_eq(links(), 0);
}

Test(link_verdict, another_rsockd_has_no_answer)
{
	struct kit k;

	begin();
	asks(&k);
	rsk_remote_dead(k.r, -ECONNRESET);
	cr_assert_eq(links(), 1);
	rsk_rsockd.number++;
	cr_assert_not(answer(RSK_REASON_MAPPED));
	cr_assert_eq(links(), 0);
}

/* ---- what is given back ---- */

/* The rail never comes, or the peer is gone before it sends PAIR. */
Test(link_verdict, a_link_that_comes_to_nothing)
{
	struct rsk_local_msg m;
	struct kit k;

	begin();
	for (int up = 0; up < 2; up++) {
		admitted(&k);
		if (up)
			kit_rail_up(&k, 0);
		rsk_remote_dead(k.r, up ? -EPIPE : -ETIMEDOUT);
		says(RSK_LOCAL_UNLINK, HANDLE, &m);
		says_nothing();
	}
	asks(&k);
	cr_assert(answer(RSK_REASON_NOT_HOLDER));
	rsk_remote_dead(k.r, -EACCES);
	says_nothing();
}

Test(link_verdict, another_link_uses_it)
{
	struct kit first, other, waiting;
	struct rsk_local_msg m;

	begin();
	admitted(&first);
	admitted(&other);
	rsk_remote_dead(other.r, -EACCES);
	says_nothing();
	asks(&waiting);
	rsk_remote_dead(first.r, -EPIPE);
	says_nothing();
	rsk_remote_dead(waiting.r, -EPIPE);
	says_nothing();
	cr_assert(answer(RSK_REASON_MAPPED));
	says(RSK_LOCAL_UNLINK, HANDLE, &m);
}

/* Whoever has read its handle may let a link end as often as it likes. */
Test(link_verdict, a_paired_stream_uses_it)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit k;

	begin();
	ks = accepts();
	atomic_store(&ks.s->phase, RSK_PHASE_PAIRED);
	ks.s->pairing.mapping = HANDLE;
	admitted(&k);
	rsk_remote_dead(k.r, -EACCES);
	says_nothing();
	ks.s->pairing.mapping = 0;
	admitted(&k);
	rsk_remote_dead(k.r, -EACCES);
	says(RSK_LOCAL_UNLINK, HANDLE, &m);
}

/* ---- several links and one stream ---- */

/* A link of a peer that is known for another stream, from the address @from. */
static void other_link(struct kit *k, const struct rsk_verbs_addr *from)
{
	link_of_its_own(k);
	kit_rail_up(k, 0);
	k->r->came_from = *from;
	k->r->here = kit_candidates[0].addr;
	k->r->target.tuple.peer[0] = 99;
}

static void pair(struct kit *k, const struct kit_stream *ks, uint64_t handle)
{
	struct rsk_link_msg m = { .type = RSK_LINK_PAIR, .sid = 2, .peer_fd = ks->fd };
	struct rsk_pm_msg pm = { .op = RSK_PM_REQ,
				 .ipv = RSK_PM_IPV4,
				 .assoc_handle = handle,
				 .cp_port = ks->s->tuple.peer_port,
				 .ap_port = ks->s->tuple.local_port };

	memcpy(pm.cp_ip, ks->s->tuple.peer, 16);
	memcpy(pm.ap_ip, ks->s->tuple.local, 16);
	rsk_pairing_take();
	rsk_pm_transaction_message(k->r->l, &m, &pm);
	rsk_pairing_give();
}

/* The next message to the other end by that link; *m: its reason. */
static void hears(struct kit *k, uint32_t type, uint32_t reason)
{
	struct rsk_link_msg m;

	cr_assert_eq(recv(k->r->pair.fd, &m, sizeof(m), MSG_DONTWAIT), sizeof(m));
	cr_assert_eq(m.type, type, "type %u", m.type);
	cr_assert_eq(m.reason, reason, "reason %u", m.reason);
}

static void rsockd_answers(const struct kit_stream *ks, uint64_t handle, uint32_t reason)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_ANSWER,
				   .flags = RSK_LOCAL_PAIR,
				   .tuple = ks->s->tuple,
				   .cookie = rsk_cookie_of(ks->fd),
				   .fd = ks->fd,
				   .link = handle,
				   .reason = reason };

	cr_assert_eq(rsk_local_msg_send(rsockd, &m, -1), 0);
	rsk_pairing_take();
	rsk_local_hear();
	rsk_pairing_give();
}

static const struct rsk_verbs_addr near = { .ip = { 10, 0, 0, 7 }, .family = AF_INET },
				   six = { .ip = { 0xfd }, .family = AF_INET6 }, unknown;

Test(link_verdict, a_request_of_another_link_waits_at_the_stream)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit one, two;

	begin();
	other_link(&one, &near);
	other_link(&two, &near);
	ks = accepts();
	pair(&one, &ks, HANDLE);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	cr_assert_arr_eq(m.from_ip, near.ip, 16);
	pair(&two, &ks, HANDLE);
	hears(&two, RSK_LINK_DENY, RSK_REASON_NO_PEER);
	says_nothing();
	rsockd_answers(&ks, HANDLE + 1, RSK_REASON_MAPPED);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP, "an answer about another mapping");
	says(RSK_LOCAL_UNLINK, HANDLE + 1, &m);
	rsockd_answers(&ks, HANDLE, RSK_REASON_MAPPED);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRING);
	cr_assert_eq(ks.s->link, one.r->l);
	says_nothing();
}

/* No answer comes for what a former rsockd was asked. */
Test(link_verdict, a_request_that_waits_in_vain)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit one, two;

	begin();
	other_link(&one, &near);
	other_link(&two, &near);
	ks = accepts();
	pair(&one, &ks, HANDLE);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	rsk_rsockd.number++;
	pair(&two, &ks, HANDLE);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	rsockd_answers(&ks, HANDLE, RSK_REASON_MAPPED);
	cr_assert_eq(ks.s->link, two.r->l);
}

/* The link ends before rsockd has admitted its request. */
Test(link_verdict, a_request_whose_link_ends)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit k, by_it;

	begin();
	other_link(&k, &near);
	ks = accepts();
	pair(&k, &ks, HANDLE);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	admitted(&by_it);
	rsk_remote_dead(by_it.r, -EPIPE);
	says_nothing(); /* the request still waits */
	rsk_remote_dead(k.r, -EPIPE);
	rsockd_answers(&ks, HANDLE, RSK_REASON_MAPPED);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
	says(RSK_LOCAL_UNLINK, HANDLE, &m);
}

/* Its peer comes again, by a link that has not said yet where it comes from. */
Test(link_verdict, an_answer_is_not_for_a_link_that_begins)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit k, begins;

	begin();
	other_link(&k, &near);
	ks = accepts();
	pair(&k, &ks, HANDLE);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	cr_assert_eq(m.flags, RSK_LOCAL_PAIR);
	asks(&begins);
	rsockd_answers(&ks, HANDLE, RSK_REASON_OTHER_SOURCE);
	cr_assert_eq(begins.r->verdict, 0);
	hears(&k, RSK_LINK_DENY, RSK_REASON_OTHER_SOURCE);
	cr_assert(answer(RSK_REASON_MAPPED));
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
}

/* rsockd is asked whether this link, too, may have it. */
Test(link_verdict, a_mapping_that_a_former_link_has_brought)
{
	struct rsk_local_msg m;
	struct kit_stream ks;
	struct kit k;

	begin();
	other_link(&k, &near);
	ks = accepts();
	ks.s->pairing.mapping = HANDLE;
	pair(&k, &ks, HANDLE);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
	says(RSK_LOCAL_LINK, HANDLE, &m);
	rsockd_answers(&ks, HANDLE, RSK_REASON_OTHER_SOURCE);
	hears(&k, RSK_LINK_DENY, RSK_REASON_OTHER_SOURCE);
}

/* Zeros would mean that the address is not known yet, and rsockd would not compare it. */
Test(link_verdict, a_source_that_cannot_be_compared)
{
	const struct rsk_verbs_addr *const from[] = { &six, &unknown };
	struct kit_stream ks;

	begin();
	ks = accepts();
	for (size_t i = 0; i < 2; i++) {
		struct kit k;

		other_link(&k, from[i]);
		pair(&k, &ks, HANDLE);
		hears(&k, RSK_LINK_DENY, RSK_REASON_OTHER_SOURCE);
		says_nothing();
	}
}

/*
 * Nothing more is asked of rsockd, and the accepting end decides by itself: whether an operator
 * wants the stream on TCP, or this process promotes no more.
 */
Test(link_verdict, what_the_accepting_end_has_against_it)
{
	struct kit_stream ks;
	struct kit k;

	begin();
	other_link(&k, &near);
	ks = accepts();
	memcpy(k.r->target.tuple.peer, ks.s->tuple.peer, 16);
	ks.s->pairing.mapping = HANDLE; /* that of the link */
	atomic_store(&ks.s->request.off, true);
	pair(&k, &ks, HANDLE);
	hears(&k, RSK_LINK_DENY, RSK_REASON_OPERATOR);
	atomic_store(&ks.s->request.off, false);
	atomic_store(&rsk_stopped, RSK_REASON_FD_LIMIT);
	pair(&k, &ks, HANDLE);
	hears(&k, RSK_LINK_DENY, RSK_REASON_FD_LIMIT);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_LOOKUP);
	cr_assert_null(ks.s->link);
	atomic_store(&rsk_stopped, 0);
	pair(&k, &ks, HANDLE);
	hears(&k, RSK_LINK_ACCEPT, 0);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRING);
	says_nothing();
}
