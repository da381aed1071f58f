/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.c - rsperf calls: measures calls that involve no TCP stream, since a preloaded library
 * intercepts them, too. One thread; nothing ever blocks, since each pair of calls finds what the
 * last one left.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"
#include "rsperf.h"

#define RSK_BATCH 64u /* pairs between two readings of the clock */

/* Two descriptors, owned; a file needs only one. */
struct rsk_ends {
	int out;
	int in;
};

static int rsk_udp_open(struct rsk_ends *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	e->in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	e->out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (e->in < 0 || e->out < 0 || bind(e->in, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(e->in, (struct sockaddr *)&at, &len) < 0 ||
	    connect(e->out, (struct sockaddr *)&at, sizeof(at)) < 0)
		return -errno;
	return 0;
}

static int rsk_local_open(struct rsk_ends *e)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	e->out = fds[0];
	e->in = fds[1];
	return 0;
}

static int rsk_file_open(struct rsk_ends *e)
{
	e->out = memfd_create("rsperf", MFD_CLOEXEC);
	return e->out < 0 ? -errno : 0;
}

/* Each returns true if both calls of a pair moved the whole message. */
static bool rsk_udp_pair(const struct rsk_ends *e, uint8_t *msg)
{
	return send(e->out, msg, RSK_MSG_BYTES, 0) == RSK_MSG_BYTES &&
	       recv(e->in, msg, RSK_MSG_BYTES, 0) == RSK_MSG_BYTES;
}

static bool rsk_local_pair(const struct rsk_ends *e, uint8_t *msg)
{
	return write(e->out, msg, RSK_MSG_BYTES) == RSK_MSG_BYTES &&
	       read(e->in, msg, RSK_MSG_BYTES) == RSK_MSG_BYTES;
}

static bool rsk_file_pair(const struct rsk_ends *e, uint8_t *msg)
{
	return pwrite(e->out, msg, RSK_MSG_BYTES, 0) == RSK_MSG_BYTES &&
	       pread(e->out, msg, RSK_MSG_BYTES, 0) == RSK_MSG_BYTES;
}

static const struct {
	int (*open)(struct rsk_ends *e);
	bool (*pair)(const struct rsk_ends *e, uint8_t *msg);
} rsk_kinds[] = {
	[RSK_CALLS_UDP] = { rsk_udp_open, rsk_udp_pair },
	[RSK_CALLS_LOCAL] = { rsk_local_open, rsk_local_pair },
	[RSK_CALLS_FILE] = { rsk_file_open, rsk_file_pair },
};

static int rsk_calls_measure(const struct rsk_opts *opts, const struct rsk_ends *e)
{
	uint64_t from_ns = rsk_monotonic_ns() + (uint64_t)(opts->warmup_s * 1e9);
	uint64_t until_ns = from_ns + (uint64_t)(opts->time_s * 1e9);
	uint64_t pairs = 0, now, begun = 0;
	uint8_t msg[RSK_MSG_BYTES] = "rsperf";

	do {
		for (unsigned int i = 0; i < RSK_BATCH; i++)
			if (!rsk_kinds[opts->calls].pair(e, msg))
				return -EIO;
		now = rsk_monotonic_ns();
		if (begun)
			pairs += RSK_BATCH;
		else if (now >= from_ns)
			begun = now;
	} while (!begun || (opts->count ? pairs < opts->count : now < until_ns) || !pairs);
	return rsk_report_calls(opts, 2 * pairs, (double)(now - begun) / 1e9);
}

int rsk_calls_main(const struct rsk_opts *opts)
{
	struct rsk_ends e = { .out = -1, .in = -1 };
	int rc;

	if (rsk_pin_thread(opts, 0))
		return 1;
	rc = rsk_kinds[opts->calls].open(&e);
	if (!rc)
		rc = rsk_calls_measure(opts, &e);
	if (rc)
		fprintf(stderr, "rsperf calls: %s\n", strerror(-rc));
	if (e.out >= 0)
		close(e.out);
	if (e.in >= 0)
		close(e.in);
	return rc ? 1 : 0;
}
