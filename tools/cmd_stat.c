// SPDX-License-Identifier: BSD-2-Clause
/* cmd_stat.c - rsock stat: every stream of every preloaded process of this user. */
#include "rsock.h"

#include "stats_json.h"
#include "tuple.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
	{ "--json", NULL, "one JSON object on one line" },
	{ "--pid", "N", "this process only" },
	{ NULL, NULL, NULL },
};

/* pid 0: all processes. */
struct request {
	bool json;
	uint32_t pid;
};

static bool wanted(const struct request *req, const struct segment *seg, uint32_t pid)
{
	return pid && (!req->pid || req->pid == pid) && segment_held_by(seg, pid);
}

static void json_print(struct rsk_json *j, const struct request *req, const struct segment *list)
{
	struct rsk_stats_stream stream;
	char comm[16];

	rsk_json_open(j, '{');
	rsk_json_key(j, "processes");
	rsk_json_open(j, '[');
	for (const struct segment *seg = list; seg; seg = seg->next) {
		for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++) {
			if (wanted(req, seg, seg->copy->process[i].pid))
				rsk_stats_json_process(j, &seg->copy->process[i]);
		}
	}
	rsk_json_close(j, ']');
	rsk_json_key(j, "streams");
	rsk_json_open(j, '[');
	for (const struct segment *seg = list; seg; seg = seg->next) {
		for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
			if (!rsk_stats_copy_stream(&seg->copy->stream[i], &stream) ||
			    !wanted(req, seg, stream.pid))
				continue;
			segment_comm(seg, stream.pid, comm);
			rsk_stats_json_stream(j, &stream, comm);
		}
	}
	rsk_json_close(j, ']');
	rsk_json_close(j, '}');
	rsk_json_raw(j, "\n");
}

static int print_json(const struct request *req, const struct segment *list)
{
	struct rsk_json j;
	size_t bytes;
	char *buf;

	/* The segments are copies: counting and writing see the same. */
	rsk_json_init(&j, NULL, 0);
	json_print(&j, req, list);
	/* Slack: a process's name may still come from /proc, and change. */
	bytes = j.len + j.len / 8 + 4096;
	buf = malloc(bytes);
	if (!buf) {
		fputs("rsock: no memory\n", stderr);
		return EXIT_FAILED;
	}
	rsk_json_init(&j, buf, bytes);
	json_print(&j, req, list);
	if (j.len > bytes) {
		fputs("rsock: the processes changed while they were looked at\n", stderr);
		free(buf);
		return EXIT_FAILED;
	}
	fwrite(buf, 1, j.len, stdout);
	free(buf);
	return EXIT_OK;
}

/* A process chose its name: nothing in it may reach the terminal as a control code. */
static void comm_clean(char out[static 17], const char comm[static 16])
{
	size_t i;

	for (i = 0; i < 16 && comm[i]; i++)
		out[i] = comm[i] >= 0x20 && comm[i] < 0x7f ? comm[i] : '?';
	out[i] = 0;
}

/* 1234 -> "1.2k": four columns that compare at a glance. */
static const char *size_text(char buf[static 16], uint64_t bytes)
{
	static const char units[] = "BkMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1000 && unit + 2 < sizeof(units)) {
		value /= 1000;
		unit++;
	}
	if (unit == 0)
		snprintf(buf, 16, "%" PRIu64 "B", bytes);
	else
		snprintf(buf, 16, "%.1f%c", value, units[unit]);
	return buf;
}

static const char *why_text(const struct rsk_stats_stream *s, char buf[static 64])
{
	snprintf(buf, 64, "%s%s%s%s", rsk_reason_token(s->reason), s->peer_reason ? " (peer: " : "",
		 s->peer_reason ? rsk_reason_token(s->peer_reason) : "", s->peer_reason ? ")" : "");
	return buf;
}

static void print_stream(const struct rsk_stats_stream *s, const char *comm)
{
	char local[RSK_ADDR_TEXT], peer[RSK_ADDR_TEXT], name[17], why[64], sent[2][16], got[2][16];

	rsk_addr_text(s->family, s->local, s->local_port, local);
	rsk_addr_text(s->family, s->peer, s->peer_port, peer);
	comm_clean(name, comm);
	printf("%-7" PRIu32 " %-15s %-21s %-21s %-4s %-4s %8s %8s %8s %8s %4" PRIu32 " %-6s %s\n",
	       s->pid, name, local, peer, rsk_carrier_token(s->tx), rsk_carrier_token(s->rx),
	       size_text(sent[0], s->tx_ring_bytes), size_text(sent[1], s->tx_tcp_bytes),
	       size_text(got[0], s->rx_ring_bytes), size_text(got[1], s->rx_tcp_bytes),
	       s->demotions, s->state == RSK_STATS_OPEN ? "open" : "closed", why_text(s, why));
}

static int print_table(const struct request *req, const struct segment *list)
{
	struct rsk_stats_stream stream;
	uint64_t unrecorded = 0;
	unsigned int shown = 0;
	char comm[16];

	for (const struct segment *seg = list; seg; seg = seg->next) {
		unrecorded += seg->copy->header.unrecorded;
		for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
			if (!rsk_stats_copy_stream(&seg->copy->stream[i], &stream) ||
			    !wanted(req, seg, stream.pid))
				continue;
			if (shown++ == 0)
				printf("%-7s %-15s %-21s %-21s %-4s %-4s %8s %8s %8s %8s %4s %-6s "
				       "%s\n",
				       "PID", "PROGRAM", "LOCAL", "PEER", "SEND", "RECV", "S-RING",
				       "S-TCP", "R-RING", "R-TCP", "DEM", "STATE", "REASON");
			segment_comm(seg, stream.pid, comm);
			print_stream(&stream, comm);
		}
	}
	if (!shown)
		puts("no streams: no process of this user has TCP streams that librsock follows");
	if (unrecorded)
		printf("%" PRIu64 " streams found no place in the statistics\n", unrecorded);
	return EXIT_OK;
}

static int parse_pid(const char *text, uint32_t *pid)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value <= 0 || value > INT_MAX)
		return -EINVAL;
	*pid = (uint32_t)value;
	return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct request req = { 0 };
	struct segment *list;
	int err, status;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			req.json = true;
		} else if (strcmp(argv[i], "--pid") == 0) {
			if (++i == argc)
				return usage_error(self, "--pid needs the number of a process");
			if (parse_pid(argv[i], &req.pid))
				return usage_error(self, "'%s' is not the number of a process",
						   argv[i]);
		} else {
			return usage_error(self, "unknown %s '%s'",
					   argv[i][0] == '-' ? "option" : "argument", argv[i]);
		}
	}
	err = segments_scan(&list);
	if (err) {
		fprintf(stderr, "rsock: cannot look through /proc: %s\n", strerror(-err));
		return EXIT_FAILED;
	}
	status = req.json ? print_json(&req, list) : print_table(&req, list);
	segments_free(list);
	return status;
}

const struct command cmd_stat = {
	.name = "stat",
	.help = "how each stream of this user's programs travels",
	.options = options,
	.run = run,
};
