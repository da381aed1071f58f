// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmd_why.c - rsock why: explains why a process, a descriptor or the streams of an address are or
 * are not accelerated.
 */
#include "rsock.h"

#include "explain.h"
#include "streams.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>

enum {
	OPT_JSON,
	OPT_LIMIT,
};

static const struct option_row options[] = {
	{ "--json", NULL, "one JSON object on one line, of all streams" },
	{ "--limit", "N", "number of streams that are explained in words (50)" },
	{ NULL, NULL, NULL },
};

/* One question and what was found. The lists are owned. */
struct inquiry {
	struct host host;
	struct target target;
	bool json;
	uint64_t limit;
	struct streams streams;
	pid_t pid;     /* of the near ends; 0: any */
	json_t *procs; /* listeners, or the process asked about */
	size_t met;    /* number of processes found */
	enum answer verdict;
};

/* Yes only if both are; unknown if none is no. */
static enum answer both(enum answer a, enum answer b)
{
	if (a == ANSWER_NO || b == ANSWER_NO)
		return ANSWER_NO;
	return a == ANSWER_UNKNOWN || b == ANSWER_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_YES;
}

/* Shows and counts a process that was found. */
static void meet(struct inquiry *q, const struct proc *p)
{
	enum finding finding;
	enum answer ready;

	if (!p)
		return;
	finding = proc_finding(p);
	if (q->json)
		json_array_append_new(q->procs, proc_json(p));
	else
		proc_print(p);
	ready = finding == FINDING_GONE || finding == FINDING_UNREADABLE ||
				finding == FINDING_OTHER_VERSION ?
			ANSWER_UNKNOWN :
		finding == FINDING_READY ? ANSWER_YES :
					   ANSWER_NO;
	q->verdict = q->met++ ? both(q->verdict, ready) : ready;
}

static int ask_process(struct inquiry *q)
{
	q->pid = q->target.pid;
	meet(q, host_proc(&q->host, q->pid));
	return streams_of_process(&q->host, q->pid, &q->streams);
}

static int ask_descriptor(struct inquiry *q)
{
	const struct sock_row *row;
	uint64_t inode;
	int err;

	q->pid = q->target.pid;
	meet(q, host_proc(&q->host, q->pid));
	err = streams_of_descriptor(&q->host, q->pid, q->target.fd, &q->streams, &inode, &row);
	if (err || q->streams.count)
		return err;
	if (!q->json)
		printf("  descriptor %d: %s\n", q->target.fd,
		       !inode ? "not a socket, or it cannot be read" :
		       !row   ? "not a TCP socket of the process's network namespace; "
				"nothing else is accelerated" :
		       row->state == TCP_LISTEN ?
			      "a listening socket; accepted connections may be accelerated" :
			      "not connected");
	if (!inode || !row || row->state != TCP_LISTEN)
		q->verdict = inode ? ANSWER_NO : ANSWER_UNKNOWN;
	return 0;
}

/* Shows the processes that listen on the address. */
static void listeners(struct inquiry *q, const struct addresses *where)
{
	static const uint8_t any[16];
	pid_t last = 0;

	for (size_t i = 0; i < q->host.sockets.count; i++) {
		const struct sock_row *row = &q->host.sockets.row[i];
		const struct holder *h;
		char user[33];
		size_t n;

		if (row->state != TCP_LISTEN || row->tuple.local_port != q->target.port ||
		    (memcmp(row->tuple.local, any, 16) != 0 &&
		     !addresses_have(where, row->tuple.family, row->tuple.local)))
			continue;
		h = holders_of(&q->host.holders, row->inode, &n);
		if (!h && !q->json)
			printf("A listening process of user %s cannot be read.\n",
			       user_text(user, row->uid));
		for (size_t k = 0; h && k < n; k++) {
			if (h[k].pid == last)
				continue;
			last = h[k].pid;
			meet(q, host_proc(&q->host, last));
		}
	}
}

static int ask_address(struct inquiry *q)
{
	struct addresses where;
	int err = addresses_resolve(q->target.host, &where);

	if (err) {
		fprintf(stderr, "rsock: %s: %s\n", q->target.host, gai_strerror(err));
		return 0;
	}
	listeners(q, &where);
	return streams_of_address(&q->host, &where, q->target.port, &q->streams);
}

static json_t *explain_all(struct inquiry *q)
{
	json_t *streams = json_array();
	enum answer verdict = ANSWER_YES;
	struct connection c;

	for (size_t i = 0; i < q->streams.count; i++) {
		connection_explain(&q->host, &q->streams.at[i], q->pid, &c);
		verdict = both(verdict, c.direct);
		if (q->json)
			json_array_append_new(streams, connection_json(&c));
		else if (i < q->limit)
			connection_print(&c);
	}
	if (q->streams.count)
		q->verdict = verdict;
	return streams;
}

static int answer(struct inquiry *q)
{
	static const int exits[] = {
		[ANSWER_UNKNOWN] = EXIT_UNKNOWN, [ANSWER_NO] = EXIT_NO, [ANSWER_YES] = EXIT_OK
	};
	size_t hidden = q->host.holders.unreadable;
	json_t *streams;
	int err;

	streams_settle(&q->streams);
	streams = explain_all(q);
	if (q->json) {
		err = json_print(json_pack("{s:o,s:O,s:o,s:I}", "accelerated",
					   q->verdict == ANSWER_UNKNOWN ?
						   json_null() :
						   json_boolean(q->verdict == ANSWER_YES),
					   "processes", q->procs, "streams", streams,
					   "unreadable_processes", (json_int_t)hidden));
		return err ? err : exits[q->verdict];
	}
	json_decref(streams);
	if (q->streams.count > q->limit)
		printf("  and %zu more streams (--limit, --json)\n",
		       q->streams.count - (size_t)q->limit);
	if (!q->streams.count && q->target.kind == TARGET_ADDRESS)
		puts("  no connection to or from this address on this host");
	else if (!q->streams.count && q->target.kind == TARGET_PID && q->verdict != ANSWER_UNKNOWN)
		puts("  it has no TCP connections now");
	if (hidden)
		printf("%zu processes of other users could not be read; run rsock as root.\n",
		       hidden);
	return exits[q->verdict];
}

static int ask(struct inquiry *q)
{
	static int (*const askers[])(struct inquiry *) = {
		[TARGET_PID] = ask_process,
		[TARGET_FD] = ask_descriptor,
		[TARGET_ADDRESS] = ask_address,
	};
	int err = host_take(q->target.pid, &q->host), status;

	/* The process has ended, or its namespace cannot be read; explain what is known. */
	if (err && err != -ENOMEM && q->target.pid)
		err = host_take(0, &q->host);
	if (err)
		return failure("cannot read /proc: %s", strerror(-err));
	q->procs = json_array();
	err = askers[q->target.kind](q);
	status = err ? failure("%s", strerror(-err)) : answer(q);
	json_decref(q->procs);
	streams_free(&q->streams);
	host_free(&q->host);
	return status;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	struct inquiry q = { .limit = 50 };
	const char *what = NULL;
	int arg;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == ARG_WORD && what)
			return usage_error(self, "only one target is allowed: '%s'", a.value);
		if (arg == ARG_WORD)
			what = a.value;
		q.json |= arg == OPT_JSON;
		if (arg == OPT_LIMIT && parse_number(a.value, 0, SIZE_MAX, &q.limit))
			return usage_error(self, "--limit '%s' is not a number", a.value);
	}
	if (!what)
		return usage_error(self, "a process, a descriptor or an address is needed");
	if (target_parse(what, &q.target))
		return usage_error(self, "'%s' is none of PID, FD@PID, PID:FD, ADDRESS:PORT", what);
	return ask(&q);
}

const struct command cmd_why = {
	.name = "why",
	.help = "explain why a process, a descriptor or the streams of an address stay on TCP",
	.words = "PID | FD@PID | PID:FD | ADDRESS:PORT",
	.details =
		"Exit status 0: all of its streams are accelerated (if there are none: they would\n"
		"be); 1: not all are; 3: the target does not exist or cannot be read.\n"
		":PORT stands for any address.",
	.options = options,
	.run = run,
};
