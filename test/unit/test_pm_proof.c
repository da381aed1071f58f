// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_proof.c - tests what proves that a peer in another network namespace holds the other end:
 * the time stamp of the first segment, from a peer that rsockd vouches for, where the kernel shows
 * no such end here.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "engine.h"
#include "handshake.h"
#include "link.h"
#include "plain_host.h"
#include "pm_steps.h"
#include "pm_transaction.h"
#include "sockets.h"
#include "stream.h"
#include "tuple.h"

static struct rsk_stream *s;
static struct rsk_link *l;
static struct rsk_link_msg m;
static int fd[2];

/* A stream whose first segment is known; the other end is nowhere that the kernel shows. */
static void scene(void)
{
	rsk_engine_init(&plain_host);
	tcp_pair(fd);
	s = aligned_alloc(64, sizeof(*s));
	memset(s, 0, sizeof(*s));
	l = rsk_link_new(true);
	cr_assert_not_null(l);
	cr_assert_eq(rsk_tuple_from_fd(fd[0], &s->tuple), 0);
	s->syn.looked = true;
	s->syn.is = (struct rsk_syn){ .first = 1000, .n = 3 };
	l->vouched = true;
	m = (struct rsk_link_msg){ .type = RSK_LINK_ACCEPT,
				   .netns = s->tuple.netns + 1,
				   .syn = { .first = 1002, .n = 1 } };
	s->tuple.peer_port ^= 1; /* no such socket */
}

static int proof(void)
{
	return rsk_pm_transaction_proof(s, fd[0], l, &m);
}

Test(pm_proof, the_right_stamp)
{
	scene();
	cr_assert_eq(proof(), 0);
	cr_assert(s->apart);
}

Test(pm_proof, a_wrong_stamp)
{
	scene();
	for (uint32_t first = 0; first < 3000; first++) {
		m.syn.first = first;
		cr_assert_eq(proof(), first >= 1000 && first < 1003 ? 0 : RSK_REASON_NOT_HOLDER,
			     "%u", first);
	}
	m.syn = s->syn.is;
	s->connecting_side = true;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER, "an echo");
	s->connecting_side = false;
	m.syn = (struct rsk_syn){ .first = 900, .n = RSK_SYN_MOST + 100 };
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER, "all at once");
	cr_assert_not(s->apart);
}

Test(pm_proof, nobody_vouches)
{
	scene();
	l->vouched = false;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
}

Test(pm_proof, one_network_namespace)
{
	scene();
	m.netns = s->tuple.netns;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
}

/* A peer may claim to be in another namespace; the kernel knows better. */
Test(pm_proof, the_other_end_is_here)
{
	scene();
	s->tuple.peer_port ^= 1;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
	cr_assert_not(s->apart);
}

Test(pm_proof, this_end_does_not_know)
{
	scene();
	s->syn.is.n = 0;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
}

/* Over a link to another host only addresses name a stream. */
Test(pm_proof, another_host_names_no_stamp)
{
	struct rsk_pm_msg pm = { .op = RSK_PM_ACK }; /* to which there is no denial */

	scene();
	l->remote = true;
	l->seg.own.streams = l->seg.window_streams = 2;
	m = (struct rsk_link_msg){ .type = RSK_LINK_PAIR, .sid = 1 };
	atomic_store(&l->state, RSK_LINK_UP);
	rsk_pm_transaction_message(l, &m, &pm);
	cr_assert_neq(atomic_load(&l->state), RSK_LINK_DEAD, "addresses of no stream");
	m.syn = (struct rsk_syn){ .first = 1000, .n = 1 };
	rsk_pm_transaction_message(l, &m, &pm);
	cr_assert_eq(atomic_load(&l->state), RSK_LINK_DEAD);
}

Test(pm_proof, without_a_stamp_another_namespace_is_none)
{
	scene();
	m.syn.n = 0;
	cr_assert_eq(proof(), RSK_REASON_OTHER_NETNS);
}
