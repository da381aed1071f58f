// SPDX-License-Identifier: BSD-2-Clause
/* test_stats_json.c - tests records as JSON, the line written at exit, and the table of reasons. */
#include "stats_json.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats_kit.h"

TestSuite(stats_json, .init = setup, .fini = rsk_stats_fini);

Test(stats_json, json_of_one_stream)
{
	struct rsk_stats_stream s = {
		.state = RSK_STATS_OPEN,
		.pid = 42,
		.local = { 127, 0, 0, 1 },
		.peer = { 10, 0, 0, 9 },
		.local_port = 5201,
		.peer_port = 40000,
		.family = AF_INET,
		.reason = RSK_REASON_RING_FULL,
		.peer_reason = RSK_REASON_OOB,
		.tx = RSK_PATH_RING,
		.rx = RSK_PATH_TCP,
		.tx_ring_bytes = UINT64_MAX,
		.promotions = 2,
		.fabric = "verbs rxe0/1",
		.rails_lost = 3,
		.missing = 5,
		.missing_first = 4,
		.ahead = { .slots = 9, .overtook = 8, .gap = 2, .gap_lowest = 1000 },
		.tx_rail_bytes = { 1, UINT64_MAX },
		.events_written = 1,
		.events[0] = rsk_stats_event_pack(7000, RSK_EVENT_PROMOTED_TX, RSK_REASON_DIRECT),
	};
	const char comm[16] = "a\"b\\\x01\xff";
	char buf[RSK_STATS_JSON_STREAM_BYTES];
	struct rsk_json j;

	rsk_json_init(&j, buf, sizeof(buf));
	rsk_stats_json_stream(&j, &s, comm);
	cr_assert_lt(j.len, sizeof(buf));
	buf[j.len] = 0;
	cr_assert_str_eq(
		buf,
		"{\"pid\":42,\"comm\":\"a\\\"b\\\\\\u0001\\u00ff\",\"local\":\"127.0.0.1:5201\","
		"\"peer\":\"10.0.0.9:40000\",\"tx\":\"ring\",\"rx\":\"tcp\","
		"\"reason\":\"ring-full\","
		"\"peer_reason\":\"oob\",\"tx_ring_bytes\":18446744073709551615,"
		"\"rx_ring_bytes\":0,\"tx_tcp_bytes\":0,\"rx_tcp_bytes\":0,\"tx_slots\":0,"
		"\"rx_slots\":0,\"transactions\":0,\"hash_retries\":0,\"repairs\":0,\"promotions\":2,\"demotions\":0,"
		"\"demote_cause\":\"\",\"link\":0,\"fabric\":\"verbs\",\"device\":\"rxe0/1\","
		"\"rails_lost\":3,\"missing\":5,\"missing_first\":4,"
		"\"reordered\":9,\"overtook\":8,\"gap\":2,\"gap_lowest\":1000,"
		"\"tx_rail_bytes\":[1,18446744073709551615,0,0],"
		"\"open\":true,\"history\":[{\"time_ns\":7000,"
		"\"event\":\"promoted-tx\",\"cause\":\"direct\"}]}");
}

Test(stats_json, json_of_the_largest_stream_fits)
{
	struct rsk_stats_stream s;
	char comm[16];
	struct rsk_json j;

	memset(&s, 0xff, sizeof(s));
	s.events_written = 100;
	memset(comm, 0xff, sizeof(comm));
	rsk_json_init(&j, NULL, 0);
	rsk_stats_json_stream(&j, &s, comm);
	cr_assert_lt(j.len, RSK_STATS_JSON_STREAM_BYTES, "%zu", j.len);
}

Test(stats_json, a_json_buffer_too_small_is_not_overrun)
{
	struct rsk_json whole, j;
	char want[4096], buf[4096];

	stream(3, 1);
	rsk_json_init(&whole, want, sizeof(want));
	rsk_stats_json_own(&whole, rsk_stats_segment(), (uint32_t)getpid());
	cr_assert_leq(whole.len, sizeof(want));
	for (size_t cap = 0; cap < whole.len; cap++) {
		memset(buf, 0x7f, sizeof(buf));
		rsk_json_init(&j, buf, cap);
		rsk_stats_json_own(&j, rsk_stats_segment(), (uint32_t)getpid());
		cr_assert_eq(j.len, whole.len);
		cr_assert_eq(memcmp(buf, want, cap), 0);
		cr_assert_eq(buf[cap], 0x7f);
	}
}

static int child_appends(void *arg)
{
	rsk_stats_forked();
	if (rsk_stats_init(NULL))
		return 2;
	for (unsigned int i = 0; i < 200; i++)
		stream(i + 1, 1);
	return rsk_stats_append(arg) ? 1 : 0;
}

Test(stats_json, lines_of_processes_that_end_together, .timeout = 60)
{
	char name[] = "/tmp/rsock-test-stat-XXXXXX";
	int fd = mkstemp(name), lines = 0;
	pid_t kids[8];
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *f;

	cr_assert_geq(fd, 0);
	for (int i = 0; i < 8; i++) {
		kids[i] = fork();
		cr_assert_geq(kids[i], 0);
		if (kids[i] == 0)
			_exit(child_appends(name));
	}
	for (int i = 0; i < 8; i++) {
		int status;

		cr_assert_eq(waitpid(kids[i], &status, 0), kids[i]);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	f = fdopen(fd, "r");
	while ((n = getline(&line, &cap, f)) > 0) {
		unsigned int pid, streams = 0;

		cr_assert_eq(sscanf(line, "{\"processes\":[{\"pid\":%u,", &pid), 1, "%.60s", line);
		cr_assert_str_eq(line + n - 4, "}]}\n");
		for (const char *at = line; (at = strstr(at, "\"local\":")); at++)
			streams++;
		cr_assert_eq(streams, 200);
		lines++;
	}
	cr_assert_eq(lines, 8);
	free(line);
	fclose(f);
	unlink(name);
	cr_assert_eq(rsk_stats_append("/nonexistent/file"), -ENOENT);
	cr_assert_eq(rsk_stats_append("/dev/full"), -ENOSPC);
}

Test(reason, tokens_are_good_names)
{
	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++) {
		const struct rsk_reason_row *row = rsk_reason_row(i);

		cr_assert(row->token && *row->token && row->sentence && row->cure, "code %u", i);
		cr_assert_eq(strspn(row->token, "abcdefghijklmnopqrstuvwxyz-"), strlen(row->token));
		cr_assert_eq(row->sentence[strlen(row->sentence) - 1], '.', "%s", row->token);
		cr_assert_eq(row->cure[strlen(row->cure) - 1], '.', "%s", row->token);
		for (unsigned int k = 0; k < i; k++)
			cr_assert_str_neq(row->token, rsk_reason_token(k));
	}
	cr_assert_str_eq(rsk_reason_token(RSK_REASON_DIRECT), "direct");
	cr_assert_str_eq(rsk_reason_token(RSK_REASON_COUNT), "unknown");
	cr_assert_str_eq(rsk_reason_token(UINT32_MAX), "unknown");
}
