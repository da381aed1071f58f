// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmd_demote.c - rsock demote and promote: operator requests to live streams to change to TCP or
 * the ring.
 */
#include "json.h"
#include "rsock.h"
#include "stats_json.h"
#include "tuple.h"
#include "requests.h"

#include <string.h>

#define WAIT_NS 2000000000u

enum {
	OPT_ALL,
	OPT_WAIT,
	OPT_JSON,
};

static const struct option_row options[] = {
	{ "--all", NULL, "every stream that the target stands for, also if there are several" },
	{ "--wait", "SECONDS", "how long to wait until it is done; 0: do not wait (2)" },
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

struct order {
	enum rsk_stats_request kind;
	struct target target;
	bool all, json;
	uint64_t wait_ns;
};

/* ---- the result ---- */

/* A stream that has applied a promotion request and is not promoted: the answer is no. */
static int status_of(const struct order *r, const struct requested *w)
{
	if (w->state == REQUEST_ASKED && r->kind == RSK_REQUEST_PROMOTE)
		return EXIT_NO;
	return request_row(w->state)->status;
}

static int status(const struct order *r, const struct requests *all)
{
	int worst = all->count ? EXIT_OK : EXIT_UNKNOWN;

	for (size_t i = 0; i < all->count; i++) {
		int s = status_of(r, &all->at[i]);

		if (s == EXIT_NO || worst == EXIT_OK)
			worst = s;
	}
	return worst;
}

/* The live record if it is still there, else the copy. */
static const struct rsk_stats_stream *now(const struct requested *w)
{
	return w->live && w->state != REQUEST_GONE ? w->live : w->seen;
}

static json_t *requested_json(const struct requested *w)
{
	const struct rsk_stats_stream *s = now(w);
	char local[RSK_ADDR_TEXT], peer[RSK_ADDR_TEXT];

	rsk_addr_text(w->end.tuple.family, w->end.tuple.local, w->end.tuple.local_port, local);
	rsk_addr_text(w->end.tuple.family, w->end.tuple.peer, w->end.tuple.peer_port, peer);
	return json_pack("{s:s,s:s,s:i,s:o,s:s,s:s,s:s,s:s}", "local", local, "peer", peer, "pid",
			 (int)w->seen->pid, "fd",
			 w->end.fd >= 0 ? json_integer(w->end.fd) : json_null(), "result",
			 request_row(w->state)->token, "sentence", request_row(w->state)->sentence,
			 "tx", rsk_path_token(s->tx), "rx", rsk_path_token(s->rx));
}

static int tell_json(const struct order *r, const struct requests *all)
{
	json_t *list = json_array();
	size_t done = 0;
	int err;

	for (size_t i = 0; i < all->count; i++) {
		json_array_append_new(list, requested_json(&all->at[i]));
		done += all->at[i].state == REQUEST_DONE;
	}
	err = json_print(json_pack("{s:s,s:I,s:o,s:I,s:I}", "request",
				   r->kind == RSK_REQUEST_DEMOTE ? "demote" : "promote", "done",
				   (json_int_t)done, "streams", list, "without_library",
				   (json_int_t)all->without, "unreadable_processes",
				   (json_int_t)all->host.holders.unreadable));
	return err ? err : status(r, all);
}

static int tell(const struct order *r, const struct requests *all)
{
	char local[RSK_ADDR_TEXT], peer[RSK_ADDR_TEXT];

	for (size_t i = 0; i < all->count; i++) {
		const struct requested *w = &all->at[i];
		const struct rsk_tuple *t = &w->end.tuple;
		const struct rsk_stats_stream *s = now(w);

		rsk_addr_text(t->family, t->local, t->local_port, local);
		rsk_addr_text(t->family, t->peer, t->peer_port, peer);
		printf("%s - %s of process %u: %s (sends by %s, receives by %s)\n", local, peer,
		       w->seen->pid, request_row(w->state)->sentence, rsk_path_token(s->tx),
		       rsk_path_token(s->rx));
	}
	if (!all->count)
		puts(all->without ?
			     "no stream there is of a process with librsock.so; see rsock why" :
			     "no such stream");
	if (!all->count && all->host.holders.unreadable)
		printf("%zu processes of other users could not be read; run rsock as root.\n",
		       all->host.holders.unreadable);
	return status(r, all);
}

static int serve(const struct command *self, const struct order *r)
{
	struct requests all;
	int err = requests_find(&r->target, &all), rc;

	if (err) {
		rc = failure("cannot read /proc: %s", strerror(-err));
	} else if (all.count > 1 && !r->all) {
		rc = usage_error(self, "these are %zu streams: name one, or use --all", all.count);
	} else {
		requests_write(&all, r->kind);
		requests_await(&all, r->wait_ns);
		rc = r->json ? tell_json(r, &all) : tell(r, &all);
	}
	requests_free(&all);
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	struct order r = { .kind = self == &cmd_demote ? RSK_REQUEST_DEMOTE : RSK_REQUEST_PROMOTE,
			   .wait_ns = WAIT_NS };
	const char *what = NULL;
	uint64_t none;
	int arg;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		if (arg == ARG_WORD && what)
			return usage_error(self, "only one target is allowed: '%s'", a.value);
		if (arg == ARG_WORD)
			what = a.value;
		r.all |= arg == OPT_ALL;
		r.json |= arg == OPT_JSON;
		if (arg != OPT_WAIT)
			continue;
		if (parse_number(a.value, 0, 0, &none) == 0)
			r.wait_ns = 0;
		else if (parse_seconds(a.value, &r.wait_ns))
			return usage_error(self, "--wait '%s' is not a time", a.value);
	}
	if (!what)
		return usage_error(self, "a process, a descriptor or an address is needed");
	if (target_parse(what, &r.target))
		return usage_error(self, "'%s' is none of PID, FD@PID, PID:FD, ADDRESS:PORT", what);
	return serve(self, &r);
}

const struct command cmd_demote = {
	.name = "demote",
	.help = "move a live stream back to TCP in both directions, until rsock promote",
	.words = "PID | FD@PID | PID:FD | ADDRESS:PORT",
	.details = "Exit status 0: done; 3: no such stream, no permission, or it has not made the\n"
		   "necessary calls yet (the request stays). More than one stream only with --all.",
	.options = options,
	.run = run,
};

const struct command cmd_promote = {
	.name = "promote",
	.help = "move a live stream back to shared memory, or let it earn promotion at once",
	.words = "PID | FD@PID | PID:FD | ADDRESS:PORT",
	.details =
		"Exit status 0: done; 1: it was given up before, or is not accelerated yet (the\n"
		"request stays); 3: no such stream, no permission, or it has made no call yet.\n"
		"More than one stream only with --all.",
	.options = options,
	.run = run,
};
