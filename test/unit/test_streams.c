// SPDX-License-Identifier: BSD-2-Clause
/* test_streams.c - tests what rsockd reports of the transactions that statistics records count. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pma.h"
#include "streams_parts.h"

#define S 1000000000ull

static uint64_t told, told_n;
static uint32_t told_uid;
static bool told_connecting;

static void carried(void *ctx, uint32_t uid, bool connecting, uint16_t service_port,
		    uint64_t transactions, uint64_t now_ns)
{
	cr_assert_eq(service_port, connecting ? 5000 : 4000);
	told_connecting = connecting;
	told_uid = uid;
	told += transactions;
	told_n++;
}

static struct rsk_streams all = { .carried = carried };
static struct rsk_streams_user user = { .uid = 1000 };

static struct rsk_stats_stream record(uint64_t opened_ns, uint64_t tx, uint64_t rx)
{
	return (struct rsk_stats_stream){ .local_port = 4000,
					  .peer_port = 5000,
					  .opened_ns = opened_ns,
					  .tx_slots = tx / 2,
					  .tx_tcp_calls = tx - tx / 2,
					  .rx_slots = rx / 2,
					  .rx_tcp_calls = rx - rx / 2 };
}

static void follow(struct rsk_streams_segment *s, size_t number, uint64_t opened_ns, uint64_t tx,
		   uint64_t rx, uint64_t at_ns)
{
	struct rsk_stats_stream r = record(opened_ns, tx, rx);

	told = told_n = 0;
	rsk_streams_follow(&all, s, number, &r, at_ns);
}

Test(streams, transactions_since_the_last_reading)
{
	struct rsk_streams_segment s = { .user = &user, .read_ns = 100 * S };

	follow(&s, 3, 90 * S, 7, 9, 101 * S);
	cr_assert_eq(told_n, 0, "it is older than the segment is known");
	s.read_ns = 101 * S;
	follow(&s, 3, 90 * S, 20, 10, 102 * S);
	cr_assert(told_n == 1 && told == 3 && told_uid == 1000, "the smaller of both");
	s.read_ns = 102 * S;
	follow(&s, 3, 90 * S, 30, 10, 103 * S);
	cr_assert_eq(told_n, 0, "one direction alone");
	follow(&s, 3, 90 * S, 30, 30, 103 * S);
	cr_assert_eq(told, 20);
	s.read_ns = 103 * S;
	follow(&s, 3, 103 * S + 1, 5, 5, 104 * S);
	cr_assert_eq(told, 5, "another stream in the same record");
	follow(&s, 3, 103 * S + 1, 4, 4, 104 * S);
	cr_assert_eq(told_n, 0, "a counter that went back");
	s.of_many = true;
	follow(&s, 3, 103 * S + 1, 5, 5, 104 * S);
	cr_assert_eq(told_uid, RSK_PMA_NOBODY);
	rsk_streams_unfollow(&s);
	cr_assert_eq(user.followed, 0);
}

Test(streams, more_than_can_be_true)
{
	struct rsk_streams_segment s = { .user = &user, .read_ns = 100 * S };

	follow(&s, 0, 101 * S, S / 200, S, 101 * S + S / 2);
	cr_assert_eq(told, S / 200);
	s.read_ns = 102 * S;
	follow(&s, 0, 101 * S, S / 200 + S / 100 + 1, UINT64_MAX, 103 * S);
	cr_assert(told_n == 0 && all.implausible == 1);
	follow(&s, 0, 101 * S, UINT64_MAX, UINT64_MAX, 103 * S);
	cr_assert(told_n == 0 && all.implausible == 2);
	follow(&s, 1, 105 * S, 1, 1, 103 * S);
	cr_assert(told_n == 0 && all.implausible == 3, "it ended before it began");
	rsk_streams_unfollow(&s);
}

/* A client has chosen a service's port as its own: only the end's own side says what it is. */
Test(streams, which_end_it_is)
{
	struct rsk_streams_segment s = { .user = &user, .read_ns = 100 * S };
	struct rsk_stats_stream r = record(101 * S, 9, 9);

	rsk_streams_follow(&all, &s, 0, &r, 102 * S);
	cr_assert(told == 9 && !told_connecting);
	r.connecting = 1;
	r.opened_ns++;
	rsk_streams_follow(&all, &s, 0, &r, 102 * S);
	cr_assert(told == 18 && told_connecting);
	rsk_streams_unfollow(&s);
}

/* What an accepted stream has carried before it had its ports. */
Test(streams, ports_come_later)
{
	struct rsk_streams_segment s = { .user = &user, .read_ns = 100 * S };
	struct rsk_stats_stream r = record(101 * S, 7, 7);

	r.local_port = r.peer_port = 0;
	rsk_streams_follow(&all, &s, 0, &r, 102 * S);
	cr_assert_eq(told_n, 0);
	s.read_ns = 102 * S;
	follow(&s, 0, 101 * S, 9, 9, 103 * S);
	cr_assert_eq(told, 9);
	rsk_streams_unfollow(&s);
}

/* Of all processes of a segment. A process may write anything: nothing shown goes back. */
Test(streams, registrations_by_their_outcome)
{
	struct rsk_streams_segment s = { .user = &user, .fd = memfd_create("segment", 0) };
	const struct rsk_streams_counters *sum = &s.last;
	struct rsk_stats_process p = { .registrations = { 7, 1, 2, 3, 4, 5 },
				       .verbs = { [RSK_STATS_VERBS_READS] = 3 } };
	const off_t at = offsetof(struct rsk_stats_segment, process);

	cr_assert_eq(ftruncate(s.fd, sizeof(struct rsk_stats_segment)), 0);
	cr_assert_eq(pwrite(s.fd, &p, sizeof(p), at), sizeof(p));
	cr_assert_eq(pwrite(s.fd, &p, sizeof(p), at + 63 * (off_t)sizeof(p)), sizeof(p));
	rsk_streams_read_segment(&all, &s, 1);
	cr_assert_eq(sum->registrations[RSK_STATS_REG_REQUESTED], 14);
	cr_assert_eq(sum->registrations[RSK_STATS_REG_LATE_VALID], 10);
	cr_assert_eq(sum->verbs[RSK_STATS_VERBS_READS], 6);
	p.registrations[0] = 0;
	p.registrations[RSK_STATS_REG_INVALID] = 20;
	cr_assert_eq(pwrite(s.fd, &p, sizeof(p), at), sizeof(p));
	rsk_streams_read_segment(&all, &s, 2);
	cr_assert_eq(sum->registrations[RSK_STATS_REG_REQUESTED], 14);
	cr_assert_eq(sum->registrations[RSK_STATS_REG_INVALID], 22);
	close(s.fd);
}

/* A user with many large segments: the memory for them has a limit. */
Test(streams, too_many_records_are_not_followed)
{
	static struct rsk_streams_segment s[8];
	size_t counted = 0;

	for (size_t i = 0; i < 8; i++) {
		s[i] = (struct rsk_streams_segment){ .user = &user, .read_ns = 100 * S };
		follow(&s[i], RSK_STATS_STREAMS - 1, 101 * S, 1, 1, 102 * S);
		counted += told;
		cr_assert_leq(user.followed, RSK_STREAMS_FOLLOWED_OF_USER);
	}
	cr_assert_eq(counted, RSK_STREAMS_FOLLOWED_OF_USER / RSK_STATS_STREAMS);
	rsk_streams_unfollow(&s[0]);
	follow(&s[7], RSK_STATS_STREAMS - 1, 101 * S, 1, 1, 102 * S);
	cr_assert_eq(told, 1, "there is room again");
	for (size_t i = 0; i < 8; i++)
		rsk_streams_unfollow(&s[i]);
	cr_assert_eq(user.followed, 0);
}
