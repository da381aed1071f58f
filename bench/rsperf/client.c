/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.c - rsperf client: runs threads over connections, watches their progress, and sums up what
 * they measured.
 */
#include <errno.h>
#include <hdr_histogram.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "drive.h"
#include "load.h"
#include "net.h"
#include "report.h"

/* If nothing moves for this time the run is reported as stuck, instead of hanging. */
#define RSK_STALL_S 10

#define RSK_IDLE_BATCH 64u /* idle streams that are opened, or used, at once */

#define RSK_TIME_MAX_NS (60 * (int64_t)RSK_NS_PER_S)

struct rsk_client;

struct rsk_worker {
	struct rsk_client *client; /* borrowed */
	unsigned int index;
	pthread_t thread;
	struct rsk_load load;
	struct rsk_load_conn *conns; /* borrowed: this worker's part of the client's */
	unsigned int conn_count;
	/* Number of streams that must be idle before it goes on; 0: the load runs. */
	unsigned int opening;
	uint64_t opened_ns; /* duration of that */
	int rc;
	char why[128];
};

struct rsk_client {
	const struct rsk_opts *opts;
	struct rsk_addrs addrs;
	struct rsk_worker *workers;  /* owned */
	struct rsk_load_conn *conns; /* owned */
};

static int rsk_worker_fail(struct rsk_worker *w, const char *doing, int rc)
{
	if (!w->rc) {
		w->rc = rc;
		snprintf(w->why, sizeof(w->why), "%s: %s", doing,
			 rc == -EBADMSG ? "wrong bytes, or not as many as were sent" :
			 rc == -EPROTO	? "that is no rsperf server" :
					  strerror(-rc));
	}
	return rc;
}

static int rsk_worker_connect(struct rsk_worker *w, struct rsk_load_conn *lc)
{
	const struct rsk_opts *opts = w->client->opts;
	uint64_t begun = rsk_monotonic_ns();
	int fd, rc;

	rc = rsk_net_connect(&w->client->addrs, &fd);
	if (rc)
		return rsk_worker_fail(w, "connect", rc);
	rc = rsk_net_tune(fd, opts->test, opts->nonblock);
	if (rc) {
		close(fd);
		return rsk_worker_fail(w, "setsockopt", rc);
	}
	rsk_load_begin(lc, &w->load, fd, begun);
	return 0;
}

/*
 * Starts the next connection after one has ended. True: the successor has taken its place (--conn).
 */
static bool rsk_worker_next(struct rsk_worker *w, struct rsk_load_conn *lc, int rc)
{
	rsk_conn_fini(&lc->conn);
	atomic_fetch_add_explicit(&w->load.ended, 1, memory_order_relaxed);
	if (rc < 0)
		rsk_worker_fail(w, "connection", rc);
	if (w->rc || w->client->opts->test != RSK_TEST_CONN ||
	    rsk_load_over(&w->load, lc->messages, rsk_monotonic_ns()))
		return false;
	return rsk_worker_connect(w, lc) == 0;
}

static struct rsk_conn *rsk_worker_ended(struct rsk_loop *loop, struct rsk_conn *c, int rc)
{
	return rsk_worker_next(loop->owner, c->owner, rc) ? c : NULL;
}

static bool rsk_worker_enough(struct rsk_loop *loop)
{
	const struct rsk_worker *w = loop->owner;

	if (w->opening)
		return w->rc || w->load.idle_now == w->opening;
	return loop->live <= w->load.idle_now;
}

static const struct rsk_loop_ops rsk_worker_ops = { .ended = rsk_worker_ended,
						    .enough = rsk_worker_enough };

static void rsk_worker_run(struct rsk_worker *w, struct rsk_loop *loop)
{
	int rc = rsk_loop_run(loop);

	if (rc < 0)
		rsk_worker_fail(w, rsk_wait_name(w->client->opts->wait), rc);
}

/*
 * Opens connections, or wakes idle ones, a batch at a time, each for @calls round trips. They were
 * added in order, so a connection's number equals its slot.
 */
static void rsk_worker_use(struct rsk_worker *w, struct rsk_loop *loop, unsigned int from,
			   unsigned int to, bool open, uint64_t calls)
{
	while (from < to && !w->rc) {
		unsigned int n = to - from < RSK_IDLE_BATCH ? to - from : RSK_IDLE_BATCH;

		w->opening = open ? from + n : w->load.idle_now;
		for (; n && !w->rc; n--, from++) {
			struct rsk_load_conn *lc = &w->conns[from];

			if (!open) {
				rsk_load_rouse(lc, calls);
				rsk_loop_kick(loop, loop->first + from);
				continue;
			}
			lc->idle = true;
			lc->messages = calls;
			if (rsk_worker_connect(w, lc) == 0)
				rsk_loop_add(loop, &lc->conn);
		}
		if (!w->rc)
			rsk_worker_run(w, loop);
	}
	w->opening = 0;
}

/*
 * The streams of the load are opened first, and stay idle like the others until all are there: only
 * then the load begins, and its time.
 */
static void rsk_worker_rest(struct rsk_worker *w, struct rsk_loop *loop)
{
	const struct rsk_opts *opts = w->client->opts;
	uint64_t begun = rsk_monotonic_ns();

	w->load.from_ns = UINT64_MAX;
	rsk_worker_use(w, loop, 0, w->conn_count + opts->idle, true, RSK_IDLE_CALLS);
	w->opened_ns = rsk_monotonic_ns() - begun;
	rsk_load_times(&w->load);
	if (w->rc)
		return;
	fprintf(stderr, "rsperf client: %u streams rest\n", opts->idle);
	for (unsigned int i = 0; i < w->conn_count; i++) {
		w->conns[i].idle = false;
		rsk_load_rouse(&w->conns[i], 0);
		rsk_loop_kick(loop, loop->first + i);
	}
}

static void rsk_worker_loop(struct rsk_worker *w)
{
	const struct rsk_opts *opts = w->client->opts;
	struct rsk_loop loop;
	int rc = rsk_loop_init(&loop, &rsk_worker_ops, w, opts->wait, opts->nonblock,
			       w->conn_count + opts->idle, -1);

	if (rc) {
		rsk_worker_fail(w, rsk_wait_name(opts->wait), rc);
		return;
	}
	if (opts->idle)
		rsk_worker_rest(w, &loop);
	for (unsigned int i = 0; !opts->idle && i < w->conn_count && !w->rc; i++)
		if (rsk_worker_connect(w, &w->conns[i]) == 0)
			rsk_loop_add(&loop, &w->conns[i].conn);
	if (!w->rc)
		rsk_worker_run(w, &loop);
	if (opts->idle && !w->rc)
		rsk_worker_use(w, &loop, w->conn_count, w->conn_count + opts->idle, false, 1);
	rsk_loop_fini(&loop);
}

static void *rsk_worker_main(void *arg)
{
	struct rsk_worker *w = arg;
	const struct rsk_opts *opts = w->client->opts;
	int rc = rsk_pin_thread(opts, w->index);

	if (rc) {
		rsk_worker_fail(w, "--pin", rc);
		return NULL;
	}
	if (opts->wait != RSK_WAIT_RECV) {
		rsk_worker_loop(w);
		return NULL;
	}
	if (rsk_worker_connect(w, &w->conns[0]))
		return NULL;
	do
		rc = rsk_drive_blocking(&w->conns[0].conn, opts->nonblock);
	while (rsk_worker_next(w, &w->conns[0], rc));
	return NULL;
}

static uint64_t rsk_client_moved(const struct rsk_client *cl)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < cl->opts->threads; i++)
		sum += atomic_load_explicit(&cl->workers[i].load.ended, memory_order_relaxed);
	if (cl->opts->test == RSK_TEST_CONN)
		return sum;
	for (unsigned int i = 0; i < cl->opts->conns + cl->opts->idle; i++)
		sum += atomic_load_explicit(&cl->conns[i].conn.tx_bytes, memory_order_relaxed) +
		       atomic_load_explicit(&cl->conns[i].conn.rx_bytes, memory_order_relaxed);
	return sum;
}

/* Joins a worker; ends the program if the run makes no progress. */
static void rsk_client_join(const struct rsk_client *cl, struct rsk_worker *w)
{
	uint64_t moved = rsk_client_moved(cl);
	int still_s = 0;

	for (;;) {
		struct timespec until;
		uint64_t now;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		if (pthread_timedjoin_np(w->thread, NULL, &until) == 0)
			return;
		now = rsk_client_moved(cl);
		still_s = now == moved ? still_s + 1 : 0;
		moved = now;
		if (still_s < RSK_STALL_S)
			continue;
		fprintf(stderr, "rsperf client: nothing has moved for %d s\n", RSK_STALL_S);
		exit(3);
	}
}

static void rsk_span_add(const struct rsk_span *span, uint64_t *bytes, double *rate)
{
	if (!span->from_ns || span->to_ns <= span->from_ns)
		return;
	*bytes += span->to_bytes - span->from_bytes;
	*rate += (double)(span->to_bytes - span->from_bytes) * 1e9 /
		 (double)(span->to_ns - span->from_ns);
}

static int rsk_client_report(const struct rsk_client *cl)
{
	const struct rsk_opts *opts = cl->opts;
	struct rsk_report r = { .opts = opts };
	struct hdr_histogram *sum = cl->workers[0].load.times;
	uint64_t from_ns = cl->workers[0].load.from_ns, last_ns = from_ns;
	struct rusage ru;

	for (unsigned int i = 0; i < opts->threads; i++) {
		const struct rsk_load *load = &cl->workers[i].load;

		if (i)
			hdr_add(sum, load->times);
		last_ns = load->last_ns > last_ns ? load->last_ns : last_ns;
	}
	for (unsigned int i = 0; i < opts->conns; i++) {
		rsk_span_add(&cl->conns[i].out, &r.out_bytes, &r.out_bytes_per_s);
		rsk_span_add(&cl->conns[i].in, &r.in_bytes, &r.in_bytes_per_s);
	}
	if (opts->test == RSK_TEST_LAT || opts->test == RSK_TEST_CONN) {
		r.times = sum;
		r.seconds = (double)(last_ns - from_ns) / 1e9;
	}
	if (r.times ? !sum->total_count : !(r.out_bytes + r.in_bytes)) {
		fputs("rsperf client: nothing was measured in that time\n", stderr);
		return 1;
	}
	r.idle_s = (double)cl->workers[0].opened_ns / 1e9;
	getrusage(RUSAGE_SELF, &ru);
	r.cpu_user_s = (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6;
	r.cpu_sys_s = (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec / 1e6;
	r.sleeps = (uint64_t)ru.ru_nvcsw;
	return rsk_report_client(&r) ? 1 : 0;
}

static int rsk_client_run(struct rsk_client *cl)
{
	const struct rsk_opts *opts = cl->opts;
	unsigned int next = 0, started = 0;
	int status = 0;

	for (unsigned int i = 0; i < opts->threads; i++) {
		struct rsk_worker *w = &cl->workers[i];

		w->client = cl;
		w->index = i;
		w->load.opts = opts;
		rsk_load_times(&w->load);
		w->conns = &cl->conns[next];
		w->conn_count = opts->conns / opts->threads + (i < opts->conns % opts->threads);
		next += w->conn_count;
		if (hdr_init(1, RSK_TIME_MAX_NS, 3, &w->load.times)) {
			fputs("rsperf client: no memory for a histogram\n", stderr);
			return 1;
		}
	}
	for (; started < opts->threads; started++) {
		struct rsk_worker *w = &cl->workers[started];
		int err = pthread_create(&w->thread, NULL, rsk_worker_main, w);

		if (err) {
			fprintf(stderr, "rsperf client: thread: %s\n", strerror(err));
			exit(1); /* the running threads would never end */
		}
	}
	for (unsigned int i = 0; i < started; i++)
		rsk_client_join(cl, &cl->workers[i]);
	for (unsigned int i = 0; i < opts->threads; i++) {
		if (!cl->workers[i].rc)
			continue;
		fprintf(stderr, "rsperf client: %s\n", cl->workers[i].why);
		status = 1;
		break;
	}
	return status ? status : rsk_client_report(cl);
}

int rsk_client_main(const struct rsk_opts *opts)
{
	struct rsk_client cl = { .opts = opts };
	int status = 1;

	rsk_net_raise_fds();
	if (rsk_net_resolve(&cl.addrs, opts, false))
		return 1;
	cl.workers = calloc(opts->threads, sizeof(*cl.workers));
	cl.conns = calloc((size_t)opts->conns + opts->idle, sizeof(*cl.conns));
	if (!cl.workers || !cl.conns) {
		fputs("rsperf client: no memory\n", stderr);
		goto out;
	}
	for (unsigned int i = 0; i < opts->conns + opts->idle; i++)
		cl.conns[i].conn.fd = -1;
	status = rsk_client_run(&cl);
	for (unsigned int i = 0; i < opts->conns + opts->idle; i++)
		rsk_conn_fini(&cl.conns[i].conn);
	for (unsigned int i = 0; i < opts->threads; i++)
		if (cl.workers[i].load.times)
			hdr_close(cl.workers[i].load.times);
out:
	free(cl.workers);
	free(cl.conns);
	return status;
}
