// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_proof.c - tests what proves that a peer holds the other end where no kernel interface
 * shows it: that rsockd, which vouches for it, has brought the two ends together over its link.
 * What the kernel shows here must not contradict it.
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

/* rsockd has brought the stream and its other end together, which is nowhere that it shows. */
static void scene(void)
{
	rsk_engine_init(&plain_host);
	tcp_pair(fd);
	s = aligned_alloc(64, sizeof(*s));
	memset((void *)s, 0, sizeof(*s));
	l = rsk_link_new(true);
	cr_assert_not_null(l);
	cr_assert_eq(rsk_tuple_from_fd(fd[0], &s->tuple), 0);
	s->syn.met = l->peer_nonce = 77;
	l->vouched = true;
	m = (struct rsk_link_msg){ .type = RSK_LINK_ACCEPT,
				   .netns = s->tuple.netns + 1,
				   .apart = 1 };
	s->tuple.peer_port ^= 1; /* no such socket */
}

static int proof(void)
{
	return rsk_pm_transaction_proof(s, l, &m);
}

Test(pm_proof, met_over_this_link)
{
	scene();
	cr_assert(rsk_pm_transaction_met(s, l));
	cr_assert_eq(proof(), 0);
	cr_assert(s->apart);
}

Test(pm_proof, met_over_another_link)
{
	scene();
	l->peer_nonce = 78;
	cr_assert_not(rsk_pm_transaction_met(s, l));
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
	cr_assert_not(s->apart);
}

/* A link that the other process has made itself has no name here. */
Test(pm_proof, not_met)
{
	scene();
	s->syn.met = l->peer_nonce = 0;
	cr_assert_not(rsk_pm_transaction_met(s, l));
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
}

Test(pm_proof, nobody_vouches)
{
	scene();
	l->vouched = false;
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
}

/* An address is translated on the way. */
Test(pm_proof, one_network_namespace)
{
	scene();
	m.netns = s->tuple.netns;
	cr_assert_eq(proof(), 0);
	cr_assert(s->apart);
}

/* The kernel shows the end that the peer names, though not whose it is. */
Test(pm_proof, a_pod)
{
	scene();
	s->tuple.peer_port ^= 1;
	m.netns = s->tuple.netns;
	m.cookie = rsk_cookie_of(fd[1]);
	cr_assert_eq(proof(), 0);
	cr_assert(s->apart);
}

Test(pm_proof, a_pod_and_another_socket)
{
	scene();
	s->tuple.peer_port ^= 1;
	m.netns = s->tuple.netns;
	m.cookie = rsk_cookie_of(fd[0]);
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
	cr_assert_not(s->apart);
}

/* A peer may claim to be in another namespace; the kernel knows better. */
Test(pm_proof, the_other_end_is_here)
{
	scene();
	s->tuple.peer_port ^= 1;
	m.cookie = rsk_cookie_of(fd[1]);
	cr_assert_eq(proof(), RSK_REASON_NOT_HOLDER);
	cr_assert_not(s->apart);
}

/* A peer that does not say so is none of another namespace. */
Test(pm_proof, not_said)
{
	scene();
	m.apart = 0;
	cr_assert_eq(proof(), RSK_REASON_OTHER_NETNS);
}

/* A link to another host. */
static void remote_scene(struct rsk_pm_msg *pm)
{
	*pm = (struct rsk_pm_msg){ .op = RSK_PM_ACK }; /* to which there is no denial */
	scene();
	l->remote = true;
	l->seg.own.streams = l->seg.window_streams = 2;
	m = (struct rsk_link_msg){ .type = RSK_LINK_PAIR, .sid = 1 };
	atomic_store(&l->state, RSK_LINK_UP);
}

Test(pm_proof, another_host_is_not_apart)
{
	struct rsk_pm_msg pm;

	remote_scene(&pm);
	rsk_pm_transaction_message(l, &m, &pm);
	cr_assert_neq(atomic_load(&l->state), RSK_LINK_DEAD, "addresses of no stream");
	m.apart = 1;
	rsk_pm_transaction_message(l, &m, &pm);
	cr_assert_eq(atomic_load(&l->state), RSK_LINK_DEAD);
}
