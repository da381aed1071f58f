/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operator.h - a process that sends operator requests for live streams, to go by TCP or by the
 * ring: it writes requests as `rsock demote` does and checks that they are applied. Without the
 * library it finds no streams. For the families that demote streams.
 */
#ifndef APP_OPERATOR_H
#define APP_OPERATOR_H

#include <dirent.h>
#include <rsock/splitmix.h>
#include <rsock/stats.h>

#include "app.h"

#define ROUNDS 100
#define PATIENCE_MS 20 /* of each round */
#define SURE_MS 100    /* for one request of those that are awaited */
#define LONG_MS 20000  /* for the required number of demotions */
#define STOP 1	       /* flags: the operators of sides 0 and 1 have finished */
#define GO 5	       /* flags: the processes whose streams are meant */

static struct rsk_stats_segment *segment_of(pid_t pid)
{
	struct rsk_stats_segment *seg = NULL;
	char path[64], target[64];
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);

	while (dir && !seg && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (strncmp(target, "/memfd:" RSK_STATS_NAME, strlen("/memfd:" RSK_STATS_NAME)))
			continue;
		int fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);

		seg = fd < 0 ? NULL :
			       mmap(NULL, sizeof(*seg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (seg == MAP_FAILED)
			seg = NULL;
	}
	if (dir)
		closedir(dir);
	return seg;
}

static bool is_open(const struct rsk_stats_stream *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_RELAXED) == RSK_STATS_OPEN &&
	       !__atomic_load_n(&s->given_up, __ATOMIC_RELAXED);
}

static void request(struct rsk_stats_stream *s, enum rsk_stats_request kind)
{
	uint64_t was = __atomic_load_n(&s->request, __ATOMIC_RELAXED);

	__atomic_compare_exchange_n(&s->request, &was, rsk_stats_request_next(was, kind), false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static bool heard(const struct rsk_stats_stream *s)
{
	return __atomic_load_n(&s->applied, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&s->request, __ATOMIC_RELAXED);
}

/*
 * The request was read; with @whole, also applied: both directions are on TCP, or at least one is
 * on the ring.
 */
static bool settled(const struct rsk_stats_stream *s, bool whole)
{
	bool tx = __atomic_load_n(&s->tx, __ATOMIC_RELAXED) == RSK_PATH_RING;
	bool rx = __atomic_load_n(&s->rx, __ATOMIC_RELAXED) == RSK_PATH_RING;

	if (!is_open(s))
		return true;
	if (!heard(s))
		return false;
	return !whole || rsk_stats_request_kind(s->request) == RSK_REQUEST_NONE ||
	       (rsk_stats_request_kind(s->request) == RSK_REQUEST_DEMOTE ? !tx && !rx : tx || rx);
}

/* Waits until all streams have read their requests, or with @whole applied them. */
static void await_settled(const struct rsk_stats_segment *seg, uint32_t count, bool whole,
			  int64_t deadline)
{
	for (bool all = false; !all && app_now_ms() < deadline;) {
		all = true;
		for (uint32_t i = 0; i < count; i++)
			all = all && settled(&seg->stream[i], whole);
		if (!all)
			app_pause_ms(1);
	}
}

/*
 * Sends random requests to some of the streams. Waits a moment until they have read, or applied,
 * them.
 */
static int one_round(struct rsk_stats_segment *seg, uint64_t *dice)
{
	bool whole = rsk_splitmix_next(dice) % 2;
	uint32_t count = seg->header.high_water;
	int heard_of = 0;

	for (uint32_t i = 0; i < count; i++)
		if (is_open(&seg->stream[i]) && rsk_splitmix_next(dice) % 4)
			request(&seg->stream[i], rsk_splitmix_next(dice) % 2 ? RSK_REQUEST_DEMOTE :
									       RSK_REQUEST_PROMOTE);
	await_settled(seg, count, whole, app_now_ms() + PATIENCE_MS);
	for (uint32_t i = 0; i < count; i++)
		heard_of += is_open(&seg->stream[i]) && heard(&seg->stream[i]);
	if (rsk_splitmix_next(dice) % 3 == 0)
		app_pause_ms((int)(rsk_splitmix_next(dice) % 8));
	return heard_of;
}

static uint32_t count_paired(const struct rsk_stats_segment *seg)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < seg->header.high_water; i++)
		n += is_open(&seg->stream[i]) && seg->stream[i].link;
	return n;
}

static uint32_t count_demotions(const struct rsk_stats_segment *seg)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < seg->header.high_water; i++)
		n += is_open(&seg->stream[i]) ? seg->stream[i].demotions : 0;
	return n;
}

/*
 * Random rounds may repeat a request, or end the ring's use before it began, so the number of
 * demotions is random as well. This sends one request after the other until the number is reached.
 * It waits for each, but not for ever: an end that only sends does not check for the report that
 * nothing more will come by the ring.
 */
static bool demoted_often(struct rsk_stats_segment *seg, uint32_t times)
{
	int64_t deadline = app_now_ms() + LONG_MS;
	uint32_t count = seg->header.high_water;

	for (bool down = false; count_demotions(seg) < times && app_now_ms() < deadline;
	     down = !down) {
		for (uint32_t i = 0; i < count; i++)
			if (is_open(&seg->stream[i]))
				request(&seg->stream[i],
					down ? RSK_REQUEST_DEMOTE : RSK_REQUEST_PROMOTE);
		await_settled(seg, count, true, app_now_ms() + SURE_MS);
	}
	return count_demotions(seg) >= times;
}

/*
 * Runs the operator. Returns 0, or a code for what is wrong. Streams that were never paired are not
 * checked.
 */
static int operate(pid_t pid, bool shared)
{
	struct rsk_stats_segment *seg = segment_of(pid);
	uint64_t dice = (uint64_t)pid;
	uint32_t paired;
	int heard_of = 0;
	bool often;

	if (!seg)
		return 0;
	paired = count_paired(seg);
	for (int i = 0; i < ROUNDS; i++)
		heard_of += one_round(seg, &dice);
	often = !paired || demoted_often(seg, shared ? 1 : ROUNDS / 10);
	for (uint32_t i = 0; i < seg->header.high_water; i++)
		if (is_open(&seg->stream[i]))
			request(&seg->stream[i], RSK_REQUEST_PROMOTE);
	if (count_paired(seg) != paired)
		return 4;
	if (paired && heard_of < ROUNDS / 2)
		return 5;
	return often ? 0 : 6;
}

/*
 * Forks the operator before there are any sockets; it begins when operator_begin() names the
 * process.
 */
static pid_t operator_new(bool here, bool shared)
{
	pid_t pid = here ? (pid_t)MUST(fork()) : 0;

	if (!here) {
		app_flag_set(STOP + app_side, 1);
	} else if (!pid) {
		int status = operate((pid_t)app_flag_wait(GO + app_side), shared);

		app_flag_set(STOP + app_side, 1);
		_exit(status);
	}
	return pid;
}

static void operator_begin(pid_t pid)
{
	if (pid)
		app_flag_set(GO + app_side, (uint64_t)getpid());
}

static void operator_end(pid_t pid)
{
	if (pid)
		app_reap(pid, "operator");
}

static bool over(void)
{
	return app_flag_is_set(STOP) && app_flag_is_set(STOP + 1);
}

#endif
