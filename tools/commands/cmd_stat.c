// SPDX-License-Identifier: BSD-2-Clause
/* cmd_stat.c - rsock stat: prints every stream of every preloaded process, with rates if asked. */
#include "rsock.h"

#include "proc.h"
#include "records.h"
#include "scan.h"
#include "stats_json.h"
#include "tuple.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	OPT_JSON,
	OPT_PID,
	OPT_ALL,
	OPT_INTERVAL,
};

static const struct option_row options[] = {
	{ "--json", NULL, "one JSON object on one line" },
	{ "--pid", "N", "this process only" },
	{ "--all", NULL, "processes of all users, as far as they can be read" },
	{ "--interval", "SECONDS", "read twice, and show the rates between the two readings" },
	{ NULL, NULL, NULL },
};

/* pid 0: all processes. */
struct request {
	enum scan_whose whose;
	bool json;
	uint32_t pid;
	uint64_t interval_ns; /* between two scans; 0: one scan */
	const struct segment *before;
	struct records ends;
};

static bool wanted(const struct request *req, const struct segment *seg, uint32_t pid)
{
	return pid && (!req->pid || req->pid == pid) && segment_held_by(seg, pid);
}

/* By the index of the record: @seg and the earlier copy have it at the same place. */
static struct rates rates_of(const struct request *req, const struct segment *seg, unsigned int i)
{
	return record_rates(req->before, seg, &seg->copy->stream[i]);
}

static void json_rates(struct rsk_json *j, struct rates r)
{
	rsk_json_key(j, "rates");
	rsk_json_open(j, '{');
	rsk_json_key(j, "tx_ring_bytes_s");
	rsk_json_u64(j, r.tx_ring);
	rsk_json_key(j, "tx_tcp_bytes_s");
	rsk_json_u64(j, r.tx_tcp);
	rsk_json_key(j, "rx_ring_bytes_s");
	rsk_json_u64(j, r.rx_ring);
	rsk_json_key(j, "rx_tcp_bytes_s");
	rsk_json_u64(j, r.rx_tcp);
	rsk_json_close(j, '}');
}

static void json_other_end(struct rsk_json *j, const struct record *other)
{
	char comm[16];

	segment_comm(other->seg, other->stream->pid, comm);
	rsk_json_key(j, "other_end");
	rsk_json_open(j, '{');
	rsk_json_key(j, "pid");
	rsk_json_u64(j, other->stream->pid);
	rsk_json_key(j, "comm");
	rsk_json_text(j, comm, sizeof(comm));
	rsk_json_key(j, "reason");
	rsk_json_text(j, rsk_reason_token(other->stream->reason), SIZE_MAX);
	rsk_json_close(j, '}');
}

static void json_stream(struct rsk_json *j, const struct request *req, const struct segment *seg,
			unsigned int i, const struct rsk_stats_stream *stream)
{
	const struct record *other = records_other_end(&req->ends, stream);
	char comm[16];

	segment_comm(seg, stream->pid, comm);
	rsk_json_open(j, '{');
	rsk_stats_json_stream_members(j, stream, comm);
	if (other)
		json_other_end(j, other);
	if (req->before)
		json_rates(j, rates_of(req, seg, i));
	rsk_json_close(j, '}');
}

/* The program's name, from /proc; "" if the process is gone. */
static void comm_of(pid_t pid, char comm[static 17])
{
	struct proc p;

	proc_read(pid, &p);
	memcpy(comm, p.comm, sizeof(p.comm));
}

static void json_others(struct rsk_json *j, const struct request *req)
{
	char comm[17];
	size_t n;
	const struct other_version *at = segments_of_other_versions(&n);

	rsk_json_key(j, "other_versions");
	rsk_json_open(j, '[');
	for (size_t i = 0; i < n; i++) {
		if (req->pid && req->pid != (uint32_t)at[i].pid)
			continue;
		comm_of(at[i].pid, comm);
		rsk_json_open(j, '{');
		rsk_json_key(j, "pid");
		rsk_json_u64(j, (uint64_t)at[i].pid);
		rsk_json_key(j, "comm");
		rsk_json_text(j, comm, sizeof(comm));
		rsk_json_key(j, "statistics");
		rsk_json_u64(j, at[i].version);
		rsk_json_close(j, '}');
	}
	rsk_json_close(j, ']');
}

/* True if there are any. */
static bool print_others(const struct request *req)
{
	char comm[17];
	size_t n;
	const struct other_version *at = segments_of_other_versions(&n);
	bool some = false;

	for (size_t i = 0; i < n; i++) {
		if (req->pid && req->pid != (uint32_t)at[i].pid)
			continue;
		comm_of(at[i].pid, comm);
		printf("%-7d %-15s other-version: its statistics are of version %" PRIu32
		       ", this rsock reads version %d\n",
		       (int)at[i].pid, comm, at[i].version, RSK_STATS_VERSION);
		some = true;
	}
	return some;
}

static void json_write(struct rsk_json *j, const struct request *req, const struct segment *list)
{
	struct rsk_stats_stream stream;

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
		for (unsigned int i = 0; i < seg->copy->header.high_water; i++) {
			if (rsk_stats_copy_stream(&seg->copy->stream[i], &stream) &&
			    wanted(req, seg, stream.pid))
				json_stream(j, req, seg, i, &stream);
		}
	}
	rsk_json_close(j, ']');
	json_others(j, req);
	rsk_json_close(j, '}');
	rsk_json_raw(j, "\n");
}

static int print_json(const struct request *req, const struct segment *list)
{
	struct rsk_json j;
	size_t bytes;
	char *buf;

	/* First count, then write. The segments are copies and do not change in between. */
	rsk_json_init(&j, NULL, 0);
	json_write(&j, req, list);
	/* Slack: a process's name may come from /proc, and change. */
	bytes = j.len + j.len / 8 + 4096;
	buf = malloc(bytes);
	if (!buf)
		return failure("no memory");
	rsk_json_init(&j, buf, bytes);
	json_write(&j, req, list);
	if (j.len > bytes) {
		free(buf);
		return failure("the processes changed while they were read");
	}
	fwrite(buf, 1, j.len, stdout);
	free(buf);
	return EXIT_OK;
}

/*
 * The reason, and the other end's: the one that it sent to this end, else the one in its own
 * record.
 */
static const char *why_text(const struct request *req, const struct rsk_stats_stream *s,
			    char buf[static 96])
{
	const struct record *other = s->peer_reason ? NULL : records_other_end(&req->ends, s);
	unsigned int theirs = s->peer_reason ? s->peer_reason : other ? other->stream->reason : 0;

	snprintf(buf, 96, "%s%s%s%s", rsk_reason_token(s->reason), theirs ? " (peer: " : "",
		 theirs ? rsk_reason_token(theirs) : "", theirs ? ")" : "");
	return buf;
}

/* Shown after the reason: the bytes of each rail, if more than one rail was used. */
static const char *rails_text(const struct rsk_stats_stream *s, char buf[static 96])
{
	unsigned int most = 0, used = 0;
	size_t len = 0;

	for (unsigned int i = 0; i < RSK_STATS_RAILS; i++) {
		used += s->tx_rail_bytes[i] != 0;
		most = s->tx_rail_bytes[i] ? i + 1 : most;
	}
	buf[0] = 0;
	for (unsigned int i = 0; used > 1 && i < most; i++) {
		char size[16];

		len += (size_t)snprintf(buf + len, 96 - len, "%s%s", i ? "+" : "  by rails ",
					size_text(size, s->tx_rail_bytes[i]));
	}
	return buf;
}

static void print_heading(const struct request *req)
{
	printf("%-7s %-15s %-21s %-21s %-4s %-4s %-12s %8s %8s %8s %8s ", "PID", "PROGRAM", "LOCAL",
	       "PEER", "SEND", "RECV", "FABRIC", "S-RING", "S-TCP", "R-RING", "R-TCP");
	if (req->before)
		printf("%8s %8s ", "SEND/s", "RECV/s");
	printf("%4s %-6s %s\n", "DEM", "STATE", "REASON");
}

static void print_stream(const struct request *req, const struct segment *seg, unsigned int i,
			 const struct rsk_stats_stream *s)
{
	char local[RSK_ADDR_TEXT], peer[RSK_ADDR_TEXT], comm[16], name[17], why[96], size[4][16];
	char fabric[RSK_STATS_FABRIC_BYTES + 1], rails[96];
	struct rates r;

	segment_comm(seg, s->pid, comm);
	rsk_addr_text(s->family, s->local, s->local_port, local);
	rsk_addr_text(s->family, s->peer, s->peer_port, peer);
	printf("%-7" PRIu32 " %-15s %-21s %-21s %-4s %-4s %-12s %8s %8s %8s %8s ", s->pid,
	       text_clean(name, sizeof(name), comm, sizeof(comm)), local, peer,
	       rsk_path_token(s->tx), rsk_path_token(s->rx),
	       s->fabric[0] ? text_clean(fabric, sizeof(fabric), s->fabric, sizeof(s->fabric)) :
			      "-",
	       size_text(size[0], s->tx_ring_bytes), size_text(size[1], s->tx_tcp_bytes),
	       size_text(size[2], s->rx_ring_bytes), size_text(size[3], s->rx_tcp_bytes));
	if (req->before) {
		r = rates_of(req, seg, i);
		printf("%8s %8s ", size_text(size[0], r.tx_ring + r.tx_tcp),
		       size_text(size[1], r.rx_ring + r.rx_tcp));
	}
	printf("%4" PRIu32 " %-6s %s%s\n", s->demotions,
	       s->state == RSK_STATS_OPEN ? "open" : "closed", why_text(req, s, why),
	       rails_text(s, rails));
}

static int print_table(const struct request *req, const struct segment *list)
{
	struct rsk_stats_stream stream;
	uint64_t unrecorded = 0;
	unsigned int shown = 0;

	for (const struct segment *seg = list; seg; seg = seg->next) {
		unrecorded += seg->copy->header.unrecorded;
		for (unsigned int i = 0; i < seg->copy->header.high_water; i++) {
			if (!rsk_stats_copy_stream(&seg->copy->stream[i], &stream) ||
			    !wanted(req, seg, stream.pid))
				continue;
			if (shown++ == 0)
				print_heading(req);
			print_stream(req, seg, i, &stream);
		}
	}
	if (!print_others(req) && !shown)
		puts("no streams: no process of this user has TCP streams that librsock tracks");
	if (unrecorded)
		printf("%" PRIu64 " streams have no record: the statistics are full\n", unrecorded);
	return EXIT_OK;
}

static int look(const struct request *req, struct segment **list)
{
	int err = segments_scan(req->whose, list);

	return err ? failure("cannot read /proc: %s", strerror(-err)) : EXIT_OK;
}

static int show(struct request *req)
{
	struct segment *before = NULL, *list;
	int status;

	if (req->interval_ns) {
		struct timespec ts = { (time_t)(req->interval_ns / 1000000000),
				       (long)(req->interval_ns % 1000000000) };

		status = look(req, &before);
		if (status)
			return status;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
	status = look(req, &list);
	if (!status && records_index(list, &req->ends))
		status = failure("no memory");
	if (!status) {
		req->before = before;
		status = req->json ? print_json(req, list) : print_table(req, list);
		records_free(&req->ends);
		segments_free(list);
	}
	segments_free(before);
	return status;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	struct request req = { 0 };
	uint64_t pid;
	int arg;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		req.json |= arg == OPT_JSON;
		if (arg == OPT_ALL)
			req.whose = SCAN_ALL;
		if (arg == OPT_PID) {
			if (parse_number(a.value, 1, INT_MAX, &pid))
				return usage_error(self, "'%s' is not a process number", a.value);
			req.pid = (uint32_t)pid;
		}
		if (arg == OPT_INTERVAL && parse_seconds(a.value, &req.interval_ns))
			return usage_error(self, "--interval '%s': must be seconds, at most a day",
					   a.value);
	}
	return show(&req);
}

const struct command cmd_stat = {
	.name = "stat",
	.help = "show which path each stream of this user's programs uses",
	.options = options,
	.run = run,
};
