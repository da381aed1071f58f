/*
 * flow.c - moves pattern bytes over one connection in both directions, by blocking calls, poll, or
 * epoll; the order "flow" of peer.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl.h"

#define COOKIE 0x1234567890abcdefu /* the data that epoll must return */

/* State of one direction; a thread of its own may run it. */
struct half {
	struct flow *flow;
	uint64_t left_bytes;
	uint64_t random;
	bool open;
	bool blocked; /* edge-triggered: the last call returned EAGAIN and no event came since */
	uint8_t *buf;
};

const char *errno_name(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "unknown";
}

static void half_init(struct half *half, struct flow *flow, uint64_t bytes, uint64_t random)
{
	*half = (struct half){ .flow = flow, .left_bytes = bytes, .random = random, .open = true };
	half->buf = malloc(FLOW_CHUNK_MOST);
	if (!half->buf)
		abort();
}

static void tx_finish(struct half *half, const char *end)
{
	half->open = false;
	half->flow->tx_end = end;
}

static void rx_finish(struct half *half, const char *end)
{
	half->open = false;
	half->flow->rx_end = end;
}

/* Checks whether all bytes were sent: perhaps no further event comes that would show it. */
static void tx_look_for_end(struct half *half)
{
	if (half->left_bytes)
		return;
	if (half->flow->fin && shutdown(half->flow->conn->fd, SHUT_WR) < 0)
		tx_finish(half, errno_name(errno));
	else
		tx_finish(half, "done");
}

static void rx_look_for_end(struct half *half)
{
	if (!half->left_bytes)
		rx_finish(half, "done");
}

static void tx_step(struct half *half)
{
	struct flow *flow = half->flow;
	struct conn *conn = flow->conn;
	uint64_t size = random_size(&half->random, flow->chunk_bytes);
	ssize_t sent;

	if (size > half->left_bytes)
		size = half->left_bytes;
	pattern_fill(conn->tx_seed, conn->tx_pos_bytes, half->buf, size);
	__atomic_store_n(&flow->progress->trying, conn->tx_pos_bytes + size, __ATOMIC_SEQ_CST);
	sent = send(conn->fd, half->buf, size, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno == EAGAIN)
			half->blocked = true;
		else if (errno != EINTR)
			tx_finish(half, errno_name(errno));
		return;
	}
	conn->tx_pos_bytes += (uint64_t)sent;
	__atomic_store_n(&flow->progress->sent, conn->tx_pos_bytes, __ATOMIC_SEQ_CST);
	if (half->left_bytes != UINT64_MAX)
		half->left_bytes -= (uint64_t)sent;
	tx_look_for_end(half);
}

static void rx_step(struct half *half)
{
	struct flow *flow = half->flow;
	struct conn *conn = flow->conn;
	uint64_t size = random_size(&half->random, flow->chunk_bytes);
	uint64_t wrong_at;
	ssize_t got;

	if (size > half->left_bytes)
		size = half->left_bytes;
	got = recv(conn->fd, half->buf, size, 0);
	if (got < 0) {
		if (errno == EAGAIN)
			half->blocked = true;
		else if (errno != EINTR)
			rx_finish(half, errno_name(errno));
		return;
	}
	if (!got) {
		rx_finish(half, "eof");
		return;
	}
	wrong_at = pattern_check(conn->rx_seed, conn->rx_pos_bytes, half->buf, (size_t)got);
	if (wrong_at != UINT64_MAX && flow->wrong_at == UINT64_MAX)
		flow->wrong_at = wrong_at;
	conn->rx_pos_bytes += (uint64_t)got;
	__atomic_store_n(&flow->progress->received, conn->rx_pos_bytes, __ATOMIC_SEQ_CST);
	if (half->left_bytes != UINT64_MAX)
		half->left_bytes -= (uint64_t)got;
	rx_look_for_end(half);
	if (flow->pause_us)
		usleep(flow->pause_us);
}

static void *tx_thread(void *arg)
{
	struct half *tx = arg;

	while (tx->open)
		tx_step(tx);
	return NULL;
}

static void run_blocking(struct half *tx, struct half *rx)
{
	pthread_t thread = 0;
	bool both = tx->open && rx->open;

	if (both && pthread_create(&thread, NULL, tx_thread, tx))
		abort();
	if (!both)
		tx_thread(tx);
	while (rx->open)
		rx_step(rx);
	if (both)
		pthread_join(thread, NULL);
}

static void run_poll(struct half *tx, struct half *rx, int fd)
{
	while (tx->open || rx->open) {
		struct pollfd pfd = { .fd = fd };

		pfd.events = (short)((tx->open ? POLLOUT : 0) | (rx->open ? POLLIN : 0));
		if (poll(&pfd, 1, -1) < 0) {
			if (errno != EINTR)
				abort();
			continue;
		}
		/* On POLLHUP and POLLERR the calls themselves return the error. */
		if (tx->open && pfd.revents & ~POLLIN)
			tx_step(tx);
		if (rx->open && pfd.revents & ~POLLOUT)
			rx_step(rx);
	}
}

static void run_epoll(struct half *tx, struct half *rx, int fd, bool edge)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t armed = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (edge ? (uint32_t)EPOLLET : 0);
	struct epoll_event event = { .events = armed, .data.u64 = COOKIE };

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		abort();
	while (tx->open || rx->open) {
		uint32_t want = (tx->open ? EPOLLOUT : 0) | (rx->open ? EPOLLIN : 0);

		if (!edge && want != armed) {
			armed = want;
			event = (struct epoll_event){ .events = want, .data.u64 = COOKIE };
			if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event))
				abort();
		}
		/* Edge-triggered: no event comes before the socket was exhausted. */
		if (!edge || ((!tx->open || tx->blocked) && (!rx->open || rx->blocked))) {
			int count = epoll_wait(epoll, &event, 1, -1);

			/*
			 * A process that was stopped and continued gets EINTR here, even without a
			 * handler.
			 */
			if (count < 0 && errno == EINTR)
				continue;
			if (count != 1 || event.data.u64 != COOKIE)
				abort();
			if (event.events & ~(uint32_t)(EPOLLIN | EPOLLRDHUP))
				tx->blocked = false;
			if (event.events & ~(uint32_t)EPOLLOUT)
				rx->blocked = false;
		}
		if (tx->open && !tx->blocked)
			tx_step(tx);
		if (rx->open && !rx->blocked)
			rx_step(rx);
		if (!edge)
			tx->blocked = rx->blocked = true;
	}
	close(epoll);
}

void flow_run(struct flow *flow)
{
	int fd = flow->conn->fd;
	int flags = fcntl(fd, F_GETFL);
	struct half tx;
	struct half rx;

	flow->tx_end = flow->rx_end = "none";
	flow->wrong_at = UINT64_MAX;
	half_init(&tx, flow, flow->tx_bytes, flow->conn->tx_seed);
	half_init(&rx, flow, flow->rx_bytes, ~flow->conn->rx_seed);
	flags = flow->io == IO_BLOCK ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
	if (fcntl(fd, F_SETFL, flags))
		abort();
	tx_look_for_end(&tx);
	rx_look_for_end(&rx);
	switch (flow->io) {
	case IO_BLOCK:
		run_blocking(&tx, &rx);
		break;
	case IO_POLL:
		run_poll(&tx, &rx, fd);
		break;
	default:
		run_epoll(&tx, &rx, fd, flow->io == IO_EDGE);
	}
	free(tx.buf);
	free(rx.buf);
}
