/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.c - rsperf server: answers any test that a client asks for. With --wait recv it has one
 * blocking thread for each connection; otherwise --threads event loops that share the listener.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drive.h"
#include "net.h"

struct rsk_server {
	const struct rsk_opts *opts;
	int listener;
	atomic_uint pinned;
};

static const struct rsk_role rsk_serve_role;

static struct rsk_conn *rsk_serve_new(struct rsk_server *srv, int fd)
{
	struct rsk_conn *c = malloc(sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	rsk_conn_init(c, &rsk_serve_role, srv, fd);
	rsk_conn_begin_rx(c, c->hello, sizeof(c->hello));
	atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
	return c;
}

/* Ends a connection that ended with @rc; a client that disappears is not reported. */
static void rsk_serve_end(struct rsk_conn *c, int rc)
{
	struct rsk_server *srv = c->owner;

	if (rc < 0 && rc != -ECONNRESET && rc != -EPIPE)
		fprintf(stderr, "rsperf server: connection: %s\n",
			rc == -EBADMSG ? "wrong bytes" :
			rc == -EPROTO  ? "that is no rsperf client" :
					 strerror(-rc));
	rsk_conn_fini(c);
	free(c);
	if (srv->opts->one_off)
		kill(getpid(), SIGTERM); /* for sigwait() in the main thread */
}

static void rsk_serve_tally(struct rsk_conn *c)
{
	struct rsk_tally t = {
		.rx_bytes = atomic_load_explicit(&c->rx_bytes, memory_order_acquire),
		.tx_bytes = atomic_load_explicit(&c->tx_bytes, memory_order_relaxed),
	};

	rsk_tally_encode(c->hello, &t);
	c->in_tally = true;
	rsk_conn_begin_tx(c, c->hello, sizeof(c->hello));
}

static int rsk_serve_run(struct rsk_conn *c)
{
	int rc;

	c->in_hello = false;
	if (c->ask.test == RSK_TEST_CONN) {
		atomic_store_explicit(&c->wants, 0, memory_order_release);
		return 0;
	}
	rc = rsk_conn_prepare(c);
	if (rc)
		return rc;
	if (c->ask.test == RSK_TEST_LAT) {
		rsk_conn_begin_rx(c, c->rx_buf, (size_t)c->ask.size_bytes);
		atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
		return 0;
	}
	rsk_conn_begin_sink(c, false);
	rsk_conn_begin_pattern(c);
	atomic_store_explicit(&c->wants, c->ask.flow == RSK_FLOW_OUT ? RSK_IN : RSK_IN | RSK_OUT,
			      memory_order_release);
	return 0;
}

static int rsk_serve_sent(struct rsk_conn *c)
{
	if (c->in_hello)
		return rsk_serve_run(c);
	if (c->ask.test == RSK_TEST_LAT) {
		rsk_conn_begin_rx(c, c->rx_buf, (size_t)c->ask.size_bytes);
		atomic_store_explicit(&c->wants, RSK_IN, memory_order_release);
	} else if (c->in_tally) {
		atomic_fetch_and_explicit(&c->wants, ~RSK_OUT, memory_order_acq_rel);
	} else if (atomic_load_explicit(&c->stop, memory_order_acquire)) {
		rsk_serve_tally(c);
	} else {
		rsk_conn_begin_pattern(c);
	}
	return 0;
}

static int rsk_serve_received(struct rsk_conn *c)
{
	int rc;

	if (c->in_hello) {
		rc = rsk_hello_decode(&c->ask, c->hello);
		if (!rc)
			rc = rsk_net_tune(c->fd, c->ask.test, false);
		if (rc)
			return rc;
		rsk_conn_begin_tx(c, c->hello, sizeof(c->hello));
	} else {
		rsk_conn_begin_tx(c, c->rx_buf, (size_t)c->ask.size_bytes);
	}
	atomic_store_explicit(&c->wants, RSK_OUT, memory_order_release);
	return 0;
}

static int rsk_serve_streamed(struct rsk_conn *c)
{
	(void)c;
	return 0;
}

static int rsk_serve_eof(struct rsk_conn *c)
{
	if (c->in_hello || !c->rx_stream) {
		/* A client may disconnect between messages; within one it is an error. */
		atomic_store_explicit(&c->wants, 0, memory_order_release);
		return c->rx.done ? -ECONNRESET : 0;
	}
	if (c->ask.flow == RSK_FLOW_OUT) {
		rsk_serve_tally(c);
		atomic_store_explicit(&c->wants, RSK_OUT, memory_order_release);
		return 0;
	}
	/* The sending half finishes its message, then sends the tally. */
	atomic_store_explicit(&c->stop, true, memory_order_release);
	atomic_fetch_and_explicit(&c->wants, ~RSK_IN, memory_order_acq_rel);
	return 0;
}

static const struct rsk_role rsk_serve_role = {
	.sent = rsk_serve_sent,
	.received = rsk_serve_received,
	.streamed = rsk_serve_streamed,
	.eof = rsk_serve_eof,
};

/*
 * Accepts a connection; its fd, or -EAGAIN: there is none after all. A lack of descriptors ends the
 * server.
 */
static int rsk_serve_accept(const struct rsk_server *srv, int listener)
{
	int fd = accept4(listener, NULL, NULL,
			 SOCK_CLOEXEC | (srv->opts->nonblock ? SOCK_NONBLOCK : 0));

	if (fd >= 0)
		return fd;
	if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
		return -EAGAIN;
	return -errno;
}

static void rsk_serve_die(const char *what, int rc)
{
	fprintf(stderr, "rsperf server: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static void *rsk_serve_blocking(void *arg)
{
	struct rsk_conn *c = arg;
	struct rsk_server *srv = c->owner;
	unsigned int index = atomic_fetch_add_explicit(&srv->pinned, 1, memory_order_relaxed);

	if (rsk_pin_thread(srv->opts, index))
		exit(1);
	rsk_serve_end(c, rsk_drive_blocking(c, srv->opts->nonblock));
	return NULL;
}

static void *rsk_serve_acceptor(void *arg)
{
	struct rsk_server *srv = arg;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		struct rsk_conn *c;
		pthread_t thread;
		int fd = rsk_serve_accept(srv, srv->listener);

		if (fd == -EAGAIN)
			continue;
		if (fd < 0)
			rsk_serve_die("accept", fd);
		c = rsk_serve_new(srv, fd);
		if (c && pthread_create(&thread, &attr, rsk_serve_blocking, c))
			rsk_serve_end(c, -EAGAIN);
	}
	return NULL;
}

static struct rsk_conn *rsk_serve_ended(struct rsk_loop *loop, struct rsk_conn *c, int rc)
{
	(void)loop;
	rsk_serve_end(c, rc);
	return NULL;
}

static int rsk_serve_accepted(struct rsk_loop *loop, int listener)
{
	struct rsk_server *srv = loop->owner;
	int fd = rsk_serve_accept(srv, listener);
	struct rsk_conn *c;
	int rc;

	if (fd < 0)
		return fd == -EAGAIN ? 0 : fd;
	c = rsk_serve_new(srv, fd);
	if (!c)
		return 0;
	rc = rsk_loop_add(loop, c);
	if (rc < 0)
		rsk_serve_end(c, rc);
	return 0;
}

static const struct rsk_loop_ops rsk_serve_ops = {
	.ended = rsk_serve_ended,
	.accept = rsk_serve_accepted,
};

static void *rsk_serve_loop(void *arg)
{
	struct rsk_server *srv = arg;
	const struct rsk_opts *opts = srv->opts;
	unsigned int index = atomic_fetch_add_explicit(&srv->pinned, 1, memory_order_relaxed);
	struct rsk_loop loop;
	int rc;

	if (rsk_pin_thread(opts, index))
		exit(1);
	rc = rsk_loop_init(&loop, &rsk_serve_ops, srv, opts->wait, opts->nonblock, RSK_CONNS_MAX,
			   srv->listener);
	if (rc == 0) {
		rc = rsk_loop_run(&loop);
		rsk_loop_fini(&loop);
	}
	rsk_serve_die(rsk_wait_name(opts->wait), rc);
	return NULL;
}

int rsk_server_main(const struct rsk_opts *opts)
{
	struct rsk_server srv = { .opts = opts };
	bool blocking = opts->wait == RSK_WAIT_RECV;
	unsigned int threads = blocking ? 1 : opts->threads;
	char text[RSK_ADDR_TEXT];
	struct rsk_addrs addrs;
	sigset_t ends;
	int sig;

	rsk_net_raise_fds();
	if (rsk_net_resolve(&addrs, opts, true) ||
	    rsk_net_listen(&addrs, !blocking, &srv.listener, text))
		return 1;
	/* Blocked before there are threads, so that only sigwait() below receives them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	for (unsigned int i = 0; i < threads; i++) {
		pthread_t thread;
		int err = pthread_create(&thread, NULL,
					 blocking ? rsk_serve_acceptor : rsk_serve_loop, &srv);

		if (err)
			rsk_serve_die("thread", -err);
		pthread_detach(thread);
	}
	printf("rsperf server: listening on %s\n", text);
	fflush(stdout);
	while (sigwait(&ends, &sig) != 0)
		;
	if (opts->unix_path)
		unlink(opts->unix_path);
	/* exit() instead of return, since srv must outlive the threads that still serve. */
	exit(0);
}
