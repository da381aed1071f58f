// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rendezvous.c - tests the link handshake where a process lacks a resource, where this process
 * is both ends, and with a peer of another version, for which the test speaks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doorbell.h"
#include "engine.h"
#include "fdmsg.h"
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

/* ---- another version ---- */

#define THEIRS RSK_MAGIC_LOW(RSK_LINK_LETTERS, RSK_LINK_VERSION + 1)

static unsigned int named;

static void count_named(struct rsk_link *l, const struct rsk_link_version_msg *m)
{
	named++;
	cr_assert_eq(m->fd, 7);
}

/* A link of this process to a peer; returns the peer's socket. */
static int link_to(bool initiator)
{
	int control[2];

	setup();
	rsk_rendezvous_other_version = count_named;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, control), 0);
	rsk_rendezvous_vouched(control[0], initiator, &peer);
	return control[1];
}

/* A HELLO of that version, of any length, with so many descriptors. */
static void hello(int from, size_t bytes, int nfds)
{
	uint64_t m[64] = { THEIRS, RSK_LINK_HELLO };
	int fds[RSK_FDMSG_MOST];

	for (int i = 0; i < nfds; i++)
		fds[i] = rsk_doorbell_new();
	cr_assert_eq(rsk_fdmsg_send(from, m, bytes, fds, nfds), 0);
	for (int i = 0; i < nfds; i++)
		close(fds[i]);
}

static const struct rsk_link *only_link(void)
{
	cr_assert_eq(rsk_links.n, 1);
	return rsk_links.at[0].l;
}

static void a_hello_of(size_t bytes, int nfds)
{
	int from = link_to(false);
	struct rsk_link_version_msg m;

	hello(from, bytes, nfds);
	rsk_rendezvous_work();
	cr_assert_eq(only_link()->other_version, RSK_LINK_VERSION + 1);
	cr_assert_eq(state_of(0), RSK_LINK_HANDSHAKING, "it stays, and is not made again");
	cr_assert_eq(recv(from, &m, sizeof(m), 0), sizeof(m));
	cr_assert_eq(m.magic, RSK_LINK_MAGIC, "so the peer knows, too");
	cr_assert_eq(m.type, RSK_LINK_IS_OF_VERSION);
	cr_assert_eq(m.fd, -1);
	m = (struct rsk_link_version_msg){ .magic = THEIRS,
					   .type = RSK_LINK_IS_OF_VERSION,
					   .fd = 7 };
	cr_assert_eq(rsk_fdmsg_send(from, &m, sizeof(m), NULL, 0), 0);
	rsk_rendezvous_work();
	cr_assert_eq(named, 1);
	cr_assert_eq(recv(from, &m, sizeof(m), 0), -1, "that is not answered");
}

Test(rendezvous, a_hello_of_another_version)
{
	a_hello_of(sizeof(struct rsk_link_msg), RSK_LINK_MSG_FDS);
}

Test(rendezvous, a_shorter_hello_of_another_version)
{
	a_hello_of(64, RSK_LINK_MSG_FDS - 2);
}

Test(rendezvous, a_longer_hello_of_another_version)
{
	a_hello_of(512, RSK_FDMSG_MOST);
}

Test(rendezvous, a_hello_of_another_version_without_descriptors)
{
	a_hello_of(sizeof(uint64_t), 0);
}

/* A descriptor that is no memory is not received, whatever the version. */
Test(rendezvous, a_hello_of_another_version_with_a_socket)
{
	uint64_t m[4] = { THEIRS };
	int from = link_to(false), fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(rsk_fdmsg_send(from, m, sizeof(m), fds, 1), 0);
	rsk_rendezvous_work();
	cr_assert_eq(state_of(0), RSK_LINK_DEAD);
}

/* The connecting end: the peer's answer to its HELLO. */
Test(rendezvous, the_peer_is_of_another_version)
{
	struct rsk_link_version_msg m = { .magic = THEIRS,
					  .type = RSK_LINK_IS_OF_VERSION,
					  .fd = -1 };
	int from = link_to(true), fds[RSK_LINK_MSG_FDS], nfds;
	struct rsk_link_msg ours;

	cr_assert_gt(rsk_link_msg_recv(from, &ours, fds, &nfds), 0);
	cr_assert_eq(rsk_fdmsg_send(from, &m, sizeof(m), NULL, 0), 0);
	rsk_rendezvous_work();
	cr_assert_eq(only_link()->other_version, RSK_LINK_VERSION + 1);
	cr_assert_eq(recv(from, &m, sizeof(m), 0), -1, "no end answers an answer");
	cr_assert_eq(named, 0);
}

/* Neither our own version nor other letters are another version. */
Test(rendezvous, what_is_no_version)
{
	static const uint64_t no[] = { RSK_LINK_MAGIC, RSK_LINK_MAGIC << 8, 0,
				       RSK_LINK_MAGIC | 0xff };

	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		cr_assert_eq(rsk_link_msg_other_version(&no[i], sizeof(no[i])), 0, "%zu", i);
	cr_assert_eq(rsk_link_msg_other_version(&(uint64_t){ THEIRS }, 7), 0);
	cr_assert_eq(rsk_link_msg_other_version(&(uint64_t){ THEIRS }, 8), RSK_LINK_VERSION + 1);
}

/* Neither does one that has another version come up with ours. */
Test(rendezvous, our_version_after_another)
{
	struct rsk_link_msg m = { .type = RSK_LINK_HELLO };
	int from = link_to(false);

	hello(from, sizeof(m), RSK_LINK_MSG_FDS);
	rsk_rendezvous_work();
	cr_assert_eq(only_link()->other_version, RSK_LINK_VERSION + 1);
	m.geometry = (struct rsk_seg_geometry){ 0 };
	cr_assert_eq(rsk_link_msg_send(from, &m, NULL, 0), 0);
	rsk_rendezvous_work();
	cr_assert_eq(state_of(0), RSK_LINK_DEAD);
}

/* A link that is up does not change its version. */
Test(rendezvous, another_version_later, .init = setup)
{
	struct rsk_link_version_msg m = { .magic = THEIRS, .type = RSK_LINK_IS_OF_VERSION };

	begin();
	rsk_rendezvous_work();
	rsk_rendezvous_work();
	cr_assert_eq(state_of(1), RSK_LINK_UP);
	cr_assert_eq(rsk_fdmsg_send(rsk_links.at[0].l->control, &m, sizeof(m), NULL, 0), 0);
	atomic_fetch_add(&rsk_seg_peer_head(&rsk_links.at[0].l->seg)->messages, 1);
	rsk_rendezvous_work();
	cr_assert_eq(state_of(1), RSK_LINK_DEAD);
}
