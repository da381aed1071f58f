// SPDX-License-Identifier: BSD-2-Clause
/* test_link_requests.c - tests which streams share a link to another host. */
#include <criterion/criterion.h>
#include <sys/socket.h>

#include "link_requests.h"
#include "progress.h"

int __wrap_rsk_progress_start(void);
void __wrap_rsk_progress_call(void);

int __wrap_rsk_progress_start(void)
{
	return 0; /* no thread takes the requests */
}

void __wrap_rsk_progress_call(void)
{
}

static struct rsk_verbs_addr address(uint8_t host, uint16_t port)
{
	return (struct rsk_verbs_addr){ .ip = { 10, 0, 0, host }, .port = port, .family = AF_INET };
}

/* Of a stream from that address of ours, whose link comes from the RNIC @rnic. */
static struct rsk_remote_target target(uint8_t own, uint8_t rnic)
{
	return (struct rsk_remote_target){ .to = address(99, 5000),
					   .from = address(rnic, 0),
					   .tuple.local = { 10, 0, 0, own } };
}

Test(link_requests, streams_that_share_a_link)
{
	struct rsk_remote_target t = target(1, 11);
	uint64_t link = rsk_remote_at(&t), other;

	cr_assert_neq(link, 0);
	cr_assert_eq(rsk_remote_at(&t), link);
	t = target(1, 12);
	cr_assert_eq(rsk_remote_at(&t), link, "of the same address of ours, by another RNIC");
	t = target(2, 11);
	cr_assert_eq(rsk_remote_at(&t), link, "of another address, by the same RNIC");
	t = target(2, 12);
	other = rsk_remote_at(&t);
	cr_assert(other && other != link, "the other end would refuse it by that link");
	cr_assert_eq(rsk_remote_at(&t), other);
	t.from.family = 0;
	memset(t.from.ip, 0, sizeof(t.from.ip));
	cr_assert_eq(rsk_remote_at(&t), other, "of any RNIC: by its own address");
	t = target(1, 11);
	t.to.port++;
	cr_assert_neq(rsk_remote_at(&t), link, "of another process");
	t = target(1, 11);
	t.dscp = 8;
	cr_assert_neq(rsk_remote_at(&t), link, "of another class");
}
