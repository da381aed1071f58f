// SPDX-License-Identifier: BSD-2-Clause
/* test_tool_wish.c - a wish in a stream's record, as the tool writes it and looks what becomes of it. */
#include "rsock.h"
#include "wish.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rsk_stats_stream live, seen;
static uint64_t word;

/* A stream on the ring, which the tool has a copy of. */
static void setup(void)
{
	memset(&live, 0, sizeof(live));
	live.state = RSK_STATS_OPEN;
	live.wish = UINT64_C(7) << 32;
	live.opened_ns = 1234;
	live.fd_plus_1 = 6;
	live.reason = RSK_REASON_DIRECT;
	live.tx = live.rx = RSK_PATH_RING;
	seen = live;
}

TestSuite(tool_wish, .init = setup);

Test(tool_wish, heard_then_done)
{
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_WAITING);
	cr_assert_eq(live.wish, word);
	cr_assert_eq(rsk_stats_wish_life(word), 7);
	cr_assert_eq(wish_look(&live, word), WISH_WAITING);
	live.heeded = word;
	cr_assert_eq(wish_look(&live, word), WISH_ASKED);
	live.tx = RSK_PATH_TCP;
	cr_assert_eq(wish_look(&live, word), WISH_ASKED);
	live.rx = RSK_PATH_TCP;
	cr_assert_eq(wish_look(&live, word), WISH_DONE);
	live.reason = RSK_REASON_OPERATOR;
	/* And back: one way by the ring is enough, where nothing goes the other one. */
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_PROMOTE, &word), WISH_WAITING);
	live.heeded = word;
	cr_assert_eq(wish_look(&live, word), WISH_ASKED);
	live.rx = RSK_PATH_RING;
	cr_assert_eq(wish_look(&live, word), WISH_ASKED);
	live.reason = RSK_REASON_DIRECT;
	cr_assert_eq(wish_look(&live, word), WISH_DONE);
}

Test(tool_wish, a_stream_that_is_another_by_now)
{
	live.wish = UINT64_C(8) << 32;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_GONE);
	cr_assert_eq(live.wish, UINT64_C(8) << 32, "nothing is written");
	live.wish = seen.wish;
	live.opened_ns++;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_GONE);
	live.opened_ns--;
	live.state = RSK_STATS_CLOSED;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_GONE);
	cr_assert_eq(live.wish, seen.wish, "nothing is written");
	live.state = RSK_STATS_OPEN;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_WAITING);
	live.wish = UINT64_C(8) << 32;
	live.heeded = word;
	cr_assert_eq(wish_look(&live, word), WISH_GONE);
}

Test(tool_wish, another_operator)
{
	uint64_t other;

	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_WAITING);
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_PROMOTE, &other), WISH_WAITING);
	cr_assert_eq(wish_look(&live, word), WISH_OVERRULED);
	cr_assert_eq(wish_look(&live, other), WISH_WAITING);
}

Test(tool_wish, what_was_given_up_stays_on_tcp)
{
	live.given_up = 1;
	live.tx = live.rx = RSK_PATH_TCP;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_DONE);
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_PROMOTE, &word), WISH_GIVEN_UP);
	cr_assert_eq(live.wish, seen.wish, "nothing is written");
	live.given_up = 0;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_PROMOTE, &word), WISH_WAITING);
	live.given_up = 1;
	cr_assert_eq(wish_look(&live, word), WISH_GIVEN_UP);
}

Test(tool_wish, a_library_that_knows_none)
{
	live.wish = seen.wish = 0;
	cr_assert_eq(wish_put(&live, &seen, RSK_WISH_DEMOTE, &word), WISH_TOO_OLD);
	cr_assert_eq(live.wish, 0);
}

/* A memfd of that name and size that is not sealed could shrink under us: it is no segment. */
Test(tool_wish, only_what_is_sealed_is_mapped)
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
	mapped->stream[0].wish = 5;
	munmap(mapped, sizeof(*mapped));
	seg.ino++;
	cr_assert_eq(segment_open(&seg, &mapped), -ENOENT);
	close(fd);
}
