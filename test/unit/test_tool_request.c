// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tool_request.c - tests an operator request in a stream's record: how the tool writes it, and
 * how it sees the outcome.
 */
#include "rsock.h"
#include "request.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rsk_stats_stream live, seen;
static uint64_t word;

/* A stream on the ring, and the tool's copy of its record. */
static void setup(void)
{
	memset(&live, 0, sizeof(live));
	live.state = RSK_STATS_OPEN;
	live.request = UINT64_C(7) << 32;
	live.opened_ns = 1234;
	live.fd_plus_1 = 6;
	live.reason = RSK_REASON_DIRECT;
	live.tx = live.rx = RSK_PATH_RING;
	seen = live;
}

TestSuite(tool_request, .init = setup);

Test(tool_request, heard_then_done)
{
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_WAITING);
	cr_assert_eq(live.request, word);
	cr_assert_eq(rsk_stats_request_generation(word), 7);
	cr_assert_eq(request_check(&live, word), REQUEST_WAITING);
	live.applied = word;
	cr_assert_eq(request_check(&live, word), REQUEST_ASKED);
	live.tx = RSK_PATH_TCP;
	cr_assert_eq(request_check(&live, word), REQUEST_ASKED);
	live.rx = RSK_PATH_TCP;
	cr_assert_eq(request_check(&live, word), REQUEST_DONE);
	live.reason = RSK_REASON_OPERATOR;
	/* Back to the ring: one direction by the ring is enough if the other one is idle. */
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_PROMOTE, &word), REQUEST_WAITING);
	live.applied = word;
	cr_assert_eq(request_check(&live, word), REQUEST_ASKED);
	live.rx = RSK_PATH_RING;
	cr_assert_eq(request_check(&live, word), REQUEST_ASKED);
	live.reason = RSK_REASON_DIRECT;
	cr_assert_eq(request_check(&live, word), REQUEST_DONE);
}

Test(tool_request, a_stream_that_is_another_by_now)
{
	live.request = UINT64_C(8) << 32;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_GONE);
	cr_assert_eq(live.request, UINT64_C(8) << 32, "nothing is written");
	live.request = seen.request;
	live.opened_ns++;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_GONE);
	live.opened_ns--;
	live.state = RSK_STATS_CLOSED;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_GONE);
	cr_assert_eq(live.request, seen.request, "nothing is written");
	live.state = RSK_STATS_OPEN;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_WAITING);
	live.request = UINT64_C(8) << 32;
	live.applied = word;
	cr_assert_eq(request_check(&live, word), REQUEST_GONE);
}

Test(tool_request, another_operator)
{
	uint64_t other;

	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_WAITING);
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_PROMOTE, &other), REQUEST_WAITING);
	cr_assert_eq(request_check(&live, word), REQUEST_OVERRULED);
	cr_assert_eq(request_check(&live, other), REQUEST_WAITING);
}

Test(tool_request, what_was_given_up_stays_on_tcp)
{
	live.given_up = 1;
	live.tx = live.rx = RSK_PATH_TCP;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_DONE);
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_PROMOTE, &word), REQUEST_GIVEN_UP);
	cr_assert_eq(live.request, seen.request, "nothing is written");
	live.given_up = 0;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_PROMOTE, &word), REQUEST_WAITING);
	live.given_up = 1;
	cr_assert_eq(request_check(&live, word), REQUEST_GIVEN_UP);
}

Test(tool_request, a_library_that_knows_none)
{
	live.request = seen.request = 0;
	cr_assert_eq(request_put(&live, &seen, RSK_REQUEST_DEMOTE, &word), REQUEST_TOO_OLD);
	cr_assert_eq(live.request, 0);
}

/*
 * An unsealed memfd of that name and size could shrink while it is mapped: it is not taken for a
 * segment.
 */
Test(tool_request, only_what_is_sealed_is_mapped)
{
	int fd = memfd_create(RSK_STATS_NAME, MFD_ALLOW_SEALING);
	struct rsk_stats_segment *mapped = NULL;
	pid_t self = getpid();
	struct segment seg = { .holders = &self, .holder_count = 1 };
	struct stat st;

	cr_assert_eq(ftruncate(fd, sizeof(struct rsk_stats_segment)), 0);
	cr_assert_eq(fstat(fd, &st), 0);
	seg.dev = st.st_dev;
	seg.ino = st.st_ino;
	cr_assert_eq(segment_open(&seg, &mapped), -ENOENT);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	cr_assert_eq(segment_open(&seg, &mapped), 0);
	mapped->stream[0].request = 5;
	munmap(mapped, sizeof(*mapped));
	seg.ino++;
	cr_assert_eq(segment_open(&seg, &mapped), -ENOENT);
	close(fd);
}
