// SPDX-License-Identifier: BSD-2-Clause
/* test_tool.c - tests the tool's output for statistics segments, valid and invalid ones. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats_kit.h"

TestSuite(tool, .init = setup, .fini = rsk_stats_fini);

/*
 * Runs the tool. Its output is in *out until the next call. Other tests run at the same time, so
 * the segments of their processes appear as well.
 */
static int tool(const char *args, const char **out)
{
	static char *text;
	static size_t cap;
	const char *path = getenv("RSOCK_TOOL");
	char cmd[512];
	int status;
	FILE *p;

	cr_assert(path, "RSOCK_TOOL says where the tool is");
	snprintf(cmd, sizeof(cmd), "%s %s", path, args);
	p = popen(cmd, "r");
	cr_assert(p);
	*out = getdelim(&text, &cap, 0, p) < 0 ? "" : text;
	status = pclose(p);
	cr_assert(WIFEXITED(status), "%s: %s", cmd, *out);
	return WEXITSTATUS(status);
}

Test(tool, the_tool_shows_it, .timeout = 60)
{
	const char *out;
	struct rsk_stats_stream *s = stream(2, 1000);
	char args[64], want[128];

	rsk_stats_event(s, 2000, RSK_EVENT_PROMOTED_TX, RSK_REASON_DIRECT);
	rsk_stats_add(&s->tx_ring_bytes, 1234567);
	rsk_stats_add_shared(&rsk_stats_self()->spins, 77);
	snprintf(args, sizeof(args), "stat --json --pid %d", getpid());
	cr_assert_eq(tool(args, &out), 0);
	snprintf(want, sizeof(want), "{\"processes\":[{\"pid\":%d,\"comm\":\"", getpid());
	cr_assert(strstr(out, want), "%s", out);
	cr_assert(strstr(out, "\"spins\":77,"), "%s", out);
	cr_assert(strstr(out,
			 "\"local\":\"127.0.0.1:2\",\"peer\":\"127.0.0.2:5201\",\"tx\":\"ring\","
			 "\"rx\":\"tcp\",\"reason\":\"direct\""),
		  "%s", out);
	cr_assert(strstr(out, "\"tx_ring_bytes\":1234567,"), "%s", out);
	cr_assert(strstr(out, "\"open\":true"), "%s", out);
	rsk_stats_stream_put(s, 3000);
	snprintf(args, sizeof(args), "stat --pid %d", getpid());
	cr_assert_eq(tool(args, &out), 0);
	cr_assert(strstr(out, "127.0.0.1:2 "), "%s", out);
	cr_assert(strstr(out, "1.2M"), "%s", out);
	cr_assert(strstr(out, " closed "), "%s", out);
}

/* A stream that has not looked up its addresses yet: the tool finds them. */
static void expect_named(int family, const char *at, const char *shown)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 }, name = { 0 };
	struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
	socklen_t len = family == AF_INET ? sizeof(in) : sizeof(in6), name_len = sizeof(name);
	int listener = socket(family, SOCK_STREAM, 0), fd = socket(family, SOCK_STREAM, 0);
	struct rsk_stats_stream *s;
	unsigned int here, there;
	char want[160], args[64];
	const char *out;

	inet_pton(family, at, family == AF_INET ? (void *)&in.sin_addr : (void *)&in6.sin6_addr);
	cr_assert_eq(bind(listener, sa, len), 0, "%s", at);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, sa, &len), 0);
	cr_assert_eq(connect(fd, sa, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&name, &name_len), 0);
	here = ntohs(name.sin6_port); /* of either family */
	there = ntohs(family == AF_INET ? in.sin_port : in6.sin6_port);
	s = rsk_stats_stream_get(NULL, 1000);
	snprintf(args, sizeof(args), "stat --json --pid %d", getpid());
	cr_assert_eq(tool(args, &out), 0);
	cr_assert(strstr(out, "\"local\":\"-\",\"peer\":\"-\""), "%s", out);
	rsk_stats_stream_end(s, false, fd);
	cr_assert_eq(tool(args, &out), 0);
	snprintf(want, sizeof(want), "\"local\":\"%s:%u\",\"peer\":\"%s:%u\"", shown, here, shown,
		 there);
	cr_assert(strstr(out, want), "no %s in %s", want, out);
	/* The descriptor may belong to another file by now. */
	rsk_stats_stream_put(s, 2000);
	cr_assert_eq(tool(args, &out), 0);
	cr_assert_null(strstr(out, want), "%s", out);
	close(fd);
	close(listener);
}

Test(tool, the_tool_finds_addresses, .timeout = 60)
{
	expect_named(AF_INET, "127.0.0.1", "127.0.0.1");
	expect_named(AF_INET6, "::1", "[::1]");
	expect_named(AF_INET6, "::ffff:127.0.0.1", "127.0.0.1");
}

Test(tool, the_tool_shows_a_family_once, .timeout = 60)
{
	const char *out;
	unsigned int port = 20000 + (unsigned int)getpid() % 20000 * 2;
	struct rsk_stats_stream *s = stream(port, 1000);
	char ours[64], childs[64], want[64];
	int hold[2], up[2], status;
	pid_t child;
	const char *at;
	char byte;

	snprintf(ours, sizeof(ours), "\"local\":\"127.0.0.1:%u\"", port);
	snprintf(childs, sizeof(childs), "\"local\":\"127.0.0.1:%u\"", port + 1);

	cr_assert_eq(pipe(hold), 0);
	cr_assert_eq(pipe(up), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		close(hold[1]);
		rsk_stats_forked();
		if (rsk_stats_init(NULL))
			_exit(2);
		stream(port + 1, 2000);
		if (write(up[1], "", 1) != 1)
			_exit(1);
		_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
	}
	cr_assert_eq(read(up[0], &byte, 1), 1);
	cr_assert_eq(tool("stat --json", &out), 0);
	at = strstr(out, ours);
	cr_assert(at, "%s", out);
	cr_assert_null(strstr(at + 1, ours), "shown twice: %s", out);
	snprintf(want, sizeof(want), "{\"pid\":%d,", child);
	cr_assert(strstr(out, want), "%s", out);
	cr_assert(strstr(out, childs), "%s", out);
	close(hold[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	/* The child is gone, and so is its segment. */
	cr_assert_eq(tool("stat --json", &out), 0);
	cr_assert_null(strstr(out, want), "%s", out);
	cr_assert_null(strstr(out, childs), "%s", out);
	rsk_stats_stream_put(s, 1);
}

/* Of another version it believes the first fields, whatever follows. */
static void names_a_version(int fd)
{
	struct rsk_stats_header h = { .magic = RSK_STATS_MAGIC, .version = RSK_STATS_VERSION + 1 };
	size_t head = offsetof(struct rsk_stats_header, bytes);
	char want[64];
	const char *out;

	snprintf(want, sizeof(want), "\"statistics\":%d}]", RSK_STATS_VERSION + 1);
	cr_assert_eq(pwrite(fd, &h, head, 0), (ssize_t)head);
	cr_assert_eq(tool("stat --json 2>&1", &out), 0);
	cr_assert(strstr(out, want), "%s", out);
	h.version = RSK_STATS_VERSION;
	cr_assert_eq(pwrite(fd, &h, head, 0), (ssize_t)head);
	cr_assert_eq(tool("stat --json 2>&1", &out), 0);
	cr_assert_null(strstr(out, "\"statistics\":"), "%s", out);
}

Test(tool_alone, the_tool_believes_nothing, .timeout = 60)
{
	const char *out;
	static const size_t sizes[] = { 0, 100, 4096, sizeof(struct rsk_stats_segment) };
	struct rsk_stats_segment *seg;
	int fds[4];

	for (unsigned int i = 0; i < 4; i++) {
		fds[i] = memfd_create(RSK_STATS_NAME, MFD_CLOEXEC);
		cr_assert_geq(fds[i], 0);
		cr_assert_eq(ftruncate(fds[i], (off_t)sizes[i]), 0);
	}
	/* So is a segment under construction: it is valid, and has no contents yet. */
	cr_assert_eq(tool("stat --json 2>&1", &out), 0);
	cr_assert_eq(out[0], '{', "%s", out);
	cr_assert_eq(pwrite(fds[1], "another", 8, 0), 8);
	cr_assert_eq(tool("stat --json 2>&1", &out), 0);
	cr_assert(strstr(out, "its statistics are damaged"), "%s", out);
	cr_assert(strstr(out, "\"streams\":["), "%s", out);
	names_a_version(fds[1]);

	/* A valid header, followed by junk. */
	cr_assert_eq(rsk_stats_init(NULL), 0);
	seg = (struct rsk_stats_segment *)rsk_stats_segment();
	for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++) {
		seg->process[i].pid = (uint32_t)getpid();
		memset(seg->process[i].comm, 0x1b, sizeof(seg->process[i].comm));
	}
	for (unsigned int i = 0; i < 100; i++) {
		memset(&seg->stream[i], 0xff, sizeof(seg->stream[i]));
		seg->stream[i].state = RSK_STATS_OPEN;
		seg->stream[i].pid = (uint32_t)getpid();
	}
	seg->header.high_water = 100;
	cr_assert_eq(tool("stat", &out), 0);
	cr_assert(strstr(out, "unknown"), "%s", out);
	cr_assert_null(strchr(out, 0x1b), "a control code reached the terminal");
	seg->header.high_water = UINT32_MAX; /* more than there are */
	cr_assert_eq(tool("stat 2>&1", &out), 0);
	cr_assert(strstr(out, "its statistics are damaged"), "%s", out);
	for (unsigned int i = 0; i < 4; i++)
		close(fds[i]);
	rsk_stats_fini();
}

Test(tool, the_tool_says_how_it_is_called, .timeout = 60)
{
	const char *out;

	cr_assert_eq(tool("", &out), 2);
	cr_assert_eq(tool("nonsense 2>&1", &out), 2);
	cr_assert(strstr(out, "unknown command 'nonsense'"), "%s", out);
	cr_assert_eq(tool("--nonsense", &out), 2);
	cr_assert_eq(tool("stat --nonsense 2>&1", &out), 2);
	cr_assert(strstr(out, "usage: rsock stat"), "%s", out);
	cr_assert_eq(tool("stat --pid", &out), 2);
	cr_assert_eq(tool("stat --pid 0", &out), 2);
	cr_assert_eq(tool("stat --pid 12x", &out), 2);
	cr_assert_eq(tool("stat --pid=1 --json=yes", &out), 2);
	cr_assert_eq(tool("stat --interval 0", &out), 2);
	cr_assert_eq(tool("stat --interval x", &out), 2);
	cr_assert_eq(tool("stat --interval 1e1", &out), 2);
	cr_assert_eq(tool("reasons extra", &out), 2);
	cr_assert_eq(tool("--help", &out), 0);
	cr_assert(strstr(out, "stat") && strstr(out, "reasons"));
	cr_assert_eq(tool("stat --help", &out), 0);
	cr_assert(strstr(out, "--json"));
	cr_assert_eq(tool("--version", &out), 0);
	cr_assert_eq(tool("reasons", &out), 0);
	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++)
		cr_assert(strstr(out, rsk_reason_token(i)), "%s", rsk_reason_token(i));
	cr_assert_eq(tool("reasons >/dev/full 2>&1", &out), 4);
	cr_assert_eq(tool("reasons --json >/dev/full 2>&1", &out), 4);
}
