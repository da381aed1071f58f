// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rendezvous.c - tests the link handshake where a process lacks a resource. This process is
 * both ends.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "links.h"
#include "plain_host.h"
#include "rendezvous.h"

static const struct rsk_rendezvous_peer peer = { .pid = 1, .vouched = true };

static void setup(void)
{
	setenv("RSOCK_DAEMON", "", 1);
	rsk_engine_init(&plain_host);
}

/* Two links, the ends of one; the first one has sent HELLO. */
static void begin(void)
{
	int control[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, control), 0);
	rsk_rendezvous_vouched(control[0], true, &peer);
	rsk_rendezvous_vouched(control[1], false, &peer);
}

static uint32_t state_of(uint32_t index)
{
	return atomic_load(&rsk_links.at[index].l->state);
}

Test(rendezvous, hello_without_room_for_its_descriptors, .init = setup)
{
	struct rlimit was, low;

	begin();
	cr_assert_eq(rsk_links.n, 2);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = was;
	low.rlim_cur = (rlim_t)dup(0);
	close((int)low.rlim_cur);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	rsk_rendezvous_work();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert_eq(state_of(1), RSK_LINK_DEAD);
	cr_assert_eq(rsk_rendezvous_lacks(), -EMFILE);
	begin();
	rsk_rendezvous_work();
	rsk_rendezvous_work();
	cr_assert_eq(rsk_rendezvous_lacks(), 0);
	cr_assert_eq(state_of(rsk_links.n - 1), RSK_LINK_UP);
	cr_assert_eq(state_of(rsk_links.n - 2), RSK_LINK_UP);
}
