// SPDX-License-Identifier: BSD-2-Clause
/* requests.c - see requests.h. */
#include "requests.h"

#include "rsock.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rsock/clock.h>

#define LOOK_NS 2000000

/* A live segment, mapped once for all of its streams. */
struct mapping {
	const struct segment *seg;
	struct rsk_stats_segment *live; /* NULL: err says why */
	int err;
};

/* ---- finding the streams ---- */

static int streams_of(const struct target *target, const struct host *host, struct streams *out)
{
	const struct sock_row *row;
	struct addresses where;
	uint64_t inode;
	int err;

	switch (target->kind) {
	case TARGET_PID:
		return streams_of_process(host, target->pid, out);
	case TARGET_FD:
		return streams_of_descriptor(host, target->pid, target->fd, out, &inode, &row);
	default:
		err = addresses_resolve(target->host, &where);
		if (!err)
			return streams_of_address(host, &where, target->port, out);
		fprintf(stderr, "rsock: %s: %s\n", target->host, gai_strerror(err));
		return 0;
	}
}

/* Selects the streams that have a record at the near end; for an address, also at the far end. */
static int choose(const struct target *target, const struct streams *streams, struct requests *all)
{
	all->at = calloc(streams->count + 1, sizeof(*all->at));
	all->mapping = calloc(streams->count + 1, sizeof(*all->mapping));
	if (!all->at || !all->mapping)
		return -ENOMEM;
	for (size_t i = 0; i < streams->count; i++) {
		const struct rsk_tuple *near = &streams->at[i];
		struct rsk_tuple far = rsk_tuple_mirror(near);
		struct requested *w = &all->at[all->count];

		host_end(&all->host, near, target->pid, &w->end);
		if (!w->end.record && target->kind == TARGET_ADDRESS)
			host_end(&all->host, &far, 0, &w->end);
		if (w->end.record) {
			w->seg = w->end.record->seg;
			w->seen = w->end.record->stream;
			all->count++;
		} else {
			all->without++;
		}
	}
	return 0;
}

int requests_find(const struct target *target, struct requests *out)
{
	struct streams streams = { 0 };
	int err;

	memset(out, 0, sizeof(*out));
	err = host_take(target->pid, &out->host);
	/* The process has ended, or its namespace cannot be read. */
	if (err && err != -ENOMEM && target->pid)
		err = host_take(0, &out->host);
	if (!err)
		err = streams_of(target, &out->host, &streams);
	if (!err) {
		streams_settle(&streams);
		err = choose(target, &streams, out);
	}
	streams_free(&streams);
	return err;
}

/* ---- writing and waiting ---- */

static const struct mapping *map_segment(struct requests *all, const struct segment *seg)
{
	struct mapping *m = all->mapping;

	for (; m < all->mapping + all->mappings; m++)
		if (m->seg == seg)
			return m;
	m->seg = seg;
	m->err = segment_open(seg, &m->live);
	all->mappings++;
	return m;
}

void requests_write(struct requests *all, enum rsk_stats_request kind)
{
	for (struct requested *w = all->at; w < all->at + all->count; w++) {
		const struct mapping *m = map_segment(all, w->seg);

		if (!m->live) {
			w->state = m->err == -EACCES ? REQUEST_DENIED : REQUEST_GONE;
			continue;
		}
		w->live = &m->live->stream[w->seen - w->seg->copy->stream];
		w->state = request_put(w->live, w->seen, kind, &w->word);
	}
}

static bool unsettled(enum request_state state)
{
	return state == REQUEST_WAITING || state == REQUEST_ASKED;
}

/* Checks each unsettled request once. True: some are still unsettled. */
static bool look(struct requests *all)
{
	bool more = false;

	for (struct requested *w = all->at; w < all->at + all->count; w++) {
		if (unsettled(w->state))
			w->state = request_check(w->live, w->word);
		/* A killed process leaves its record open. */
		if (unsettled(w->state) && kill((pid_t)w->seen->pid, 0) && errno == ESRCH)
			w->state = REQUEST_GONE;
		more |= unsettled(w->state);
	}
	return more;
}

void requests_await(struct requests *all, uint64_t wait_ns)
{
	const struct timespec turn = { .tv_nsec = LOOK_NS };
	uint64_t until = rsk_monotonic_ns() + wait_ns;

	while (look(all) && rsk_monotonic_ns() < until)
		nanosleep(&turn, NULL);
}

void requests_free(struct requests *all)
{
	for (size_t i = 0; i < all->mappings; i++)
		if (all->mapping[i].live)
			munmap(all->mapping[i].live, sizeof(*all->mapping[i].live));
	free(all->mapping);
	free(all->at);
	host_free(&all->host);
	memset(all, 0, sizeof(*all));
}
