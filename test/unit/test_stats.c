// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_stats.c - tests the statistics segment: records from allocation to reuse, many writers,
 * forks, dead processes, junk in it.
 */
#include "stats.h"
#include "stats_json.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dice.h"

static void setup(void)
{
	cr_assert_eq(rsk_stats_init(NULL), 0);
}

TestSuite(stats, .init = setup, .fini = rsk_stats_fini);

static struct rsk_tuple tuple_of(unsigned int n)
{
	struct rsk_tuple t = {
		.local = { 127, 0, 0, 1 },
		.peer = { 127, 0, 0, 2 },
		.local_port = (uint16_t)(n % 60000 + 1),
		.peer_port = 5201,
		.family = AF_INET,
	};

	return t;
}

static struct rsk_stats_stream *stream(unsigned int n, uint64_t now_ns)
{
	struct rsk_tuple t = tuple_of(n);

	return rsk_stats_stream_get(&t, now_ns);
}

static bool is_recorded(const struct rsk_stats_stream *rec)
{
	const struct rsk_stats_segment *seg = rsk_stats_segment();

	return rec >= seg->stream && rec < seg->stream + RSK_STATS_STREAMS;
}

/* Invariants that hold whenever no thread is inside a call. */
static void validate(void)
{
	const struct rsk_stats_segment *seg = rsk_stats_segment();

	cr_assert_eq(seg->header.magic, RSK_STATS_MAGIC);
	cr_assert_leq(seg->header.high_water, RSK_STATS_STREAMS);
	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
		bool busy = seg->header.busy[i / 64] >> i % 64 & 1;

		cr_assert_eq(busy, seg->stream[i].state == RSK_STATS_OPEN, "record %u", i);
		cr_assert(i < seg->header.high_water || seg->stream[i].state == RSK_STATS_FREE,
			  "record %u lies above the high-water mark", i);
	}
}

Test(stats, a_stream_through_its_life)
{
	struct rsk_stats_stream *s = stream(1, 1000), copy;

	cr_assert(is_recorded(s));
	cr_assert_eq(s->state, RSK_STATS_OPEN);
	cr_assert_eq(s->reason, RSK_REASON_NOT_EARNED);
	cr_assert_eq(s->tx, RSK_PATH_TCP);
	cr_assert_eq(s->pid, (uint32_t)getpid());
	rsk_stats_event(s, 2000, RSK_EVENT_PROMOTED_TX, RSK_REASON_DIRECT);
	rsk_stats_event(s, 3000, RSK_EVENT_PROMOTED_RX, RSK_REASON_DIRECT);
	cr_assert_eq(s->reason, RSK_REASON_DIRECT);
	cr_assert_eq(s->tx, RSK_PATH_RING);
	cr_assert_eq(s->rx, RSK_PATH_RING);
	cr_assert_eq(s->promotions, 2);
	rsk_stats_event(s, 4000, RSK_EVENT_DEMOTED_TX, RSK_REASON_RING_FULL);
	cr_assert_eq(s->tx, RSK_PATH_TCP);
	cr_assert_eq(s->rx, RSK_PATH_RING);
	cr_assert_eq(s->reason, RSK_REASON_RING_FULL);
	cr_assert_eq(s->demote_cause, RSK_REASON_RING_FULL);
	cr_assert_eq(s->demotions, 1);
	rsk_stats_add(&s->tx_ring_bytes, 64);
	rsk_stats_add(&s->tx_ring_bytes, 1);
	cr_assert_eq(s->tx_ring_bytes, 65);
	validate();
	rsk_stats_stream_put(s, 5000);
	cr_assert_eq(s->state, RSK_STATS_CLOSED);
	cr_assert(rsk_stats_copy_stream(s, &copy), "a closed stream stays readable");
	cr_assert_eq(copy.tx_ring_bytes, 65);
	cr_assert_eq(copy.events_written, 5);
	cr_assert_eq(rsk_stats_event_kind(copy.events[4]), RSK_EVENT_CLOSED);
	cr_assert_eq(rsk_stats_event_time_ns(copy.events[4]), 5000);
	cr_assert_eq(rsk_stats_event_cause(copy.events[3]), RSK_REASON_RING_FULL);
	rsk_stats_stream_put(s, 6000);
	validate();
}

Test(stats, a_stream_that_gets_its_name_later)
{
	struct rsk_tuple t = tuple_of(9);
	struct rsk_stats_stream *s = rsk_stats_stream_get(NULL, 1);

	cr_assert_eq(s->family, 0);
	rsk_stats_stream_name(s, &t);
	cr_assert_eq(s->family, AF_INET);
	cr_assert_eq(s->local_port, 10);
	cr_assert_eq(s->peer_port, 5201);
	cr_assert_arr_eq(s->local, t.local, 16);
	cr_assert_arr_eq(s->peer, t.peer, 16);
	cr_assert_eq(s->state, RSK_STATS_OPEN);
}

Test(stats, history_keeps_the_last_eight)
{
	struct rsk_stats_stream *s = stream(1, 0);

	for (unsigned int i = 1; i <= 20; i++)
		rsk_stats_event(s, i * 1000, RSK_EVENT_EARNED, RSK_REASON_DIRECT);
	for (unsigned int i = 13; i <= 20; i++)
		cr_assert_eq(rsk_stats_event_time_ns(s->events[i % RSK_STATS_EVENTS]), i * 1000);
}

Test(stats, all_records_and_one_more)
{
	static struct rsk_stats_stream *s[RSK_STATS_STREAMS];
	struct rsk_stats_stream *more;

	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
		s[i] = stream(i, i);
		cr_assert(is_recorded(s[i]));
	}
	validate();
	more = stream(1, 1);
	cr_assert_not_null(more);
	cr_assert(!is_recorded(more));
	rsk_stats_event(more, 1, RSK_EVENT_PROMOTED_TX, RSK_REASON_DIRECT);
	rsk_stats_add(&more->tx_tcp_bytes, 1);
	rsk_stats_stream_put(more, 2);
	cr_assert_eq(rsk_stats_segment()->header.unrecorded, 1);
	rsk_stats_stream_put(s[4711], 3);
	cr_assert_eq(stream(2, 4), s[4711]);
	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
		rsk_stats_stream_put(s[i], 5);
	validate();
}

#define WINDOW 256u /* as in stats.c */

Test(stats, closed_records_come_last_and_in_order)
{
	struct rsk_stats_stream *first = stream(0, 0), *second = stream(1, 1);
	const struct rsk_stats_segment *seg = rsk_stats_segment();

	rsk_stats_stream_put(second, 2);
	rsk_stats_stream_put(first, 3);
	/* Closed records stay readable until the window was used once around. */
	for (unsigned int i = 2; i < WINDOW; i++) {
		struct rsk_stats_stream *s = stream(i, i);

		cr_assert(s != first && s != second, "stream %u", i);
		rsk_stats_stream_put(s, i);
	}
	cr_assert_eq(stream(1, 1), first);
	cr_assert_eq(stream(1, 1), second);
	/* Half of the window is open: the rest gets another window. */
	for (unsigned int i = 2; i < WINDOW; i++) {
		struct rsk_stats_stream *s = stream(i, i);

		if (i > WINDOW / 2)
			rsk_stats_stream_put(s, i);
	}
	cr_assert_eq(seg->header.high_water, WINDOW);
	for (unsigned int i = 0; i < WINDOW; i++)
		rsk_stats_stream_put(stream(i, i), i);
	cr_assert_eq(seg->header.high_water, 2 * WINDOW);
	cr_assert_eq(stream(1, 1), &seg->stream[WINDOW]);
	validate();
}

Test(stats, windows_that_are_full_are_passed_by)
{
	const struct rsk_stats_segment *seg = rsk_stats_segment();

	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
		cr_assert_eq(stream(i, i), &seg->stream[i]);
	cr_assert_eq(seg->header.high_water, RSK_STATS_STREAMS);
	validate();
}

static void *open_and_close(void *arg)
{
	struct rsk_stats_stream *held[32] = { 0 };
	unsigned int *bad = arg;

	for (unsigned int i = 0; i < 40000; i++) {
		struct rsk_stats_stream **at = &held[i * 7 % 32];

		if (*at) {
			/* No other thread may have been given this record meanwhile. */
			if ((*at)->tx_slots != 1)
				(*bad)++;
			rsk_stats_stream_put(*at, i);
		}
		*at = stream(i, i);
		rsk_stats_add(&(*at)->tx_slots, 1);
	}
	for (unsigned int i = 0; i < 32; i++) {
		if (held[i])
			rsk_stats_stream_put(held[i], 1);
	}
	return NULL;
}

static void *look_on(void *arg)
{
	const struct rsk_stats_segment *seg = rsk_stats_segment();
	struct rsk_stats_stream copy;

	while (!__atomic_load_n((bool *)arg, __ATOMIC_RELAXED)) {
		for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
			rsk_stats_copy_stream(&seg->stream[i], &copy);
	}
	return NULL;
}

Test(stats, many_threads, .timeout = 60)
{
	pthread_t t[4], reader;
	unsigned int bad[4] = { 0 };
	bool stop = false;

	cr_assert_eq(pthread_create(&reader, NULL, look_on, &stop), 0);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, open_and_close, &bad[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(bad[i], 0, "a record was given out twice");
	validate();
	cr_assert_eq(rsk_stats_segment()->header.unrecorded, 0);
}

/* --- processes --------------------------------------------------------------------------- */

Test(stats, the_process_describes_itself)
{
	struct rsk_stats_process *p = rsk_stats_self();
	char comm[32] = "";
	FILE *f = fopen("/proc/self/comm", "r");

	cr_assert(f);
	cr_assert(fgets(comm, sizeof(comm), f));
	fclose(f);
	comm[strcspn(comm, "\n")] = 0;
	cr_assert_eq(p->pid, (uint32_t)getpid());
	cr_assert_str_eq(p->comm, comm);
	cr_assert_gt(p->start_ticks, 0);
	cr_assert_eq(rsk_stats_self(), p);
}

Test(stats, registrations_and_work_requests_are_shown)
{
	struct rsk_stats_process p = { .registrations = { 1, 2, 3, 4, 5, UINT64_MAX },
				       .verbs = { 1, 2, [RSK_STATS_VERBS_REGISTER_FAILED] = 9 } };
	char text[1024] = "";
	struct rsk_json j;

	rsk_json_init(&j, text, sizeof(text));
	rsk_stats_json_process(&j, &p);
	cr_assert(strstr(text, "\"registrations\":{\"requested\":1,\"valid\":2,\"invalid\":3,"
			       "\"first_timeout\":4,\"second_timeout\":5,"
			       "\"late_valid\":18446744073709551615}"),
		  "%s", text);
	cr_assert(strstr(text, "\"verbs\":{\"writes\":1,\"write_bytes\":2,\"inlined\":0,"), "%s",
		  text);
	cr_assert(strstr(text, "\"register_failed\":9}}"), "%s", text);
}

Test(stats, a_name_like_a_bracket)
{
	rsk_stats_fini();
	cr_assert_eq(prctl(PR_SET_NAME, "a) (b c) 1 2"), 0);
	cr_assert_eq(rsk_stats_init(NULL), 0);
	cr_assert_str_eq(rsk_stats_self()->comm, "a) (b c) 1 2");
	cr_assert_gt(rsk_stats_self()->start_ticks, 0);
}

static int child_run(int (*fn)(void *), void *arg)
{
	int status;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(fn(arg));
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

/* A child has nothing of the parent's segment, and the one that it makes is new. */
static int child_counts(void *arg)
{
	const struct rsk_stats_segment *parents = arg;
	unsigned char in;

	rsk_stats_forked();
	if (rsk_stats_segment() || mincore((void *)parents, 1, &in) == 0 || errno != ENOMEM)
		return 1;
	if (rsk_stats_init(NULL) || rsk_stats_self()->pid != (uint32_t)getpid())
		return 2;
	rsk_stats_add_shared(&rsk_stats_self()->sleeps, 5);
	return rsk_stats_segment()->header.high_water ? 3 : 0;
}

Test(stats, a_child_counts_for_itself)
{
	struct rsk_stats_stream *s = stream(1, 1);

	rsk_stats_self()->sleeps = 1;
	cr_assert_eq(child_run(child_counts, (void *)rsk_stats_segment()), 0);
	cr_assert_eq(rsk_stats_self()->sleeps, 1);
	cr_assert_eq(s->pid, (uint32_t)getpid());
}

static int child_ends(void *arg)
{
	(void)arg;
	raise(SIGKILL);
	return 1;
}

Test(stats, streams_of_the_dead_are_swept)
{
	struct rsk_stats_segment *seg = (struct rsk_stats_segment *)rsk_stats_segment();
	pid_t dead = fork();
	struct rsk_stats_stream *s;
	int status;

	cr_assert_geq(dead, 0);
	if (dead == 0)
		_exit(child_ends(NULL));
	cr_assert_eq(waitpid(dead, &status, 0), dead);
	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
		stream(i, i);
	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
		seg->stream[i].pid = (uint32_t)dead;
	s = stream(1, UINT64_C(5000000000));
	cr_assert(is_recorded(s));
	validate();
}

/* --- no trust ---------------------------------------------------------------------------- */

Test(stats, junk_in_the_segment_is_survived)
{
	struct rsk_stats_segment *seg = (struct rsk_stats_segment *)rsk_stats_segment();
	uint64_t dice = 1, *words = (uint64_t *)seg;
	struct rsk_json j;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(*seg) / 8; i++)
			words[i] = round == 1 ? UINT64_MAX : dice_roll(&dice);
		for (unsigned int i = 0; i < 1000; i++) {
			struct rsk_stats_stream *s = stream(i, i);

			rsk_stats_event(s, i, RSK_EVENT_DEMOTED_RX, RSK_REASON_OOB);
			rsk_stats_stream_put(s, i);
		}
		rsk_stats_self()->spins++;
		for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++)
			seg->stream[i].state = RSK_STATS_OPEN;
		rsk_json_init(&j, NULL, 0);
		rsk_stats_json_own(&j, seg, seg->stream[0].pid);
		cr_assert_gt(j.len, 0);
	}
}

Test(stats, the_segment_cannot_be_resized)
{
	struct stat st;
	int fd = rsk_stats_fd();

	cr_assert_eq(ftruncate(fd, 0), -1);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(st.st_size, (off_t)sizeof(struct rsk_stats_segment));
	cr_assert_lt(st.st_blocks * 512, 64 * 1024, "an unused segment is sparse");
	cr_assert_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

Test(stats_none, everything_works_without_a_segment)
{
	struct rsk_stats_stream *s = stream(1, 1);

	cr_assert_null(rsk_stats_segment());
	cr_assert_eq(rsk_stats_fd(), -1);
	rsk_stats_event(s, 1, RSK_EVENT_EARNED, RSK_REASON_DIRECT);
	rsk_stats_add(&s->tx_tcp_bytes, 5);
	rsk_stats_add_shared(&rsk_stats_self()->spins, 1);
	rsk_stats_stream_own(s);
	rsk_stats_stream_put(s, 2);
	rsk_stats_forked();
	cr_assert_eq(rsk_stats_append("/nonexistent/file"), 0);
}

static int place_fails(int fd)
{
	close(fd);
	return -EMFILE;
}

static int place_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 500);

	close(fd);
	return high;
}

Test(stats_none, the_descriptor_is_placed)
{
	int before = dup(0), after;

	close(before);
	cr_assert_eq(rsk_stats_init(place_fails), -EMFILE);
	cr_assert_null(rsk_stats_segment());
	cr_assert_eq(rsk_stats_init(place_high), 0);
	cr_assert_geq(rsk_stats_fd(), 500);
	cr_assert_eq(rsk_stats_init(place_high), 0, "once is enough");
	rsk_stats_fini();
	cr_assert_eq(fcntl(500, F_GETFD), -1);
	after = dup(0);
	close(after);
	cr_assert_eq(before, after);
}

/*
 * An operator request is for one generation of the record: the next stream that gets the record has
 * another one, and no request.
 */
Test(stats, a_request_is_for_one_stream)
{
	struct rsk_stats_stream *s = stream(1, 1000), *again = NULL;
	uint64_t first = s->request, request;

	cr_assert_eq(rsk_stats_request_generation(first), 1);
	cr_assert_eq(rsk_stats_request_kind(first), RSK_REQUEST_NONE);
	request = rsk_stats_request_next(first, RSK_REQUEST_DEMOTE);
	cr_assert_eq(rsk_stats_request_generation(request), 1);
	cr_assert_eq(rsk_stats_request_kind(request), RSK_REQUEST_DEMOTE);
	cr_assert_neq(rsk_stats_request_next(request, RSK_REQUEST_DEMOTE), request,
		      "the same request once more");
	s->request = request;
	rsk_stats_applied(s, request);
	rsk_stats_given_up(s);
	rsk_stats_stream_put(s, 2000);
	for (unsigned int i = 0; again != s; i++) {
		cr_assert_lt(i, 2 * RSK_STATS_STREAMS, "the record is never given out again");
		again = stream(i, 3000);
		if (again != s)
			rsk_stats_stream_put(again, 3000);
	}
	cr_assert_eq(rsk_stats_request_generation(again->request), 2);
	cr_assert_eq(rsk_stats_request_kind(again->request), RSK_REQUEST_NONE);
	cr_assert_eq(again->applied, 0);
	cr_assert_eq(again->given_up, 0);
}

Test(stats, numbers_and_generations_of_requests_wrap)
{
	uint64_t last = (uint64_t)UINT32_MAX << 32 | 0xffffff00 | RSK_REQUEST_PROMOTE;

	cr_assert_eq(rsk_stats_request_next(last, RSK_REQUEST_DEMOTE),
		     (uint64_t)UINT32_MAX << 32 | RSK_REQUEST_DEMOTE);
	/* 0 means a library without operator requests. */
	cr_assert_eq(rsk_stats_request_next_generation(last), UINT64_C(1) << 32);
}
