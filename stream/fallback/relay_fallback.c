// SPDX-License-Identifier: BSD-2-Clause
/*
 * relay_fallback.c - a stream leaves by way of a relay because its ring holds bytes that will not
 * be repeated in order. fallback.c calls it; see relay.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "log.h"
#include "over.h"
#include "relay.h"
#include "resets.h"
#include "tuple.h"

static int plan_rx(struct rsk_stream *s, struct rsk_relay *r, const struct rsk_leaving *l)
{
	r->last = rsk_stream_takes_nothing(s);
	r->rd_shut = atomic_load(&s->rd_shut);
	if (!l->again)
		return rsk_rx_relay_plan(&s->rx, r);
	/* for a copy: the bytes behind the partial slot are useless without it */
	if (l->partial_len && !l->stage)
		return -ENOMEM;
	memcpy(r->data, l->partial_len ? l->stage : r->data, l->partial_len);
	r->down_bytes = l->partial_len;
	r->down_bytes += rsk_rx_relay_copy(&s->rx, s->rx.ring, r->data + l->partial_len,
					   rsk_rx_relay_bytes(&s->rx) - l->partial_len);
	r->before = l->before;
	r->skip = r->down_bytes;
	return 0;
}

/* @end takes the number @fd of this process, with the flags that the descriptor had. */
static int put_at(struct rsk_stream *s, int fd, int end)
{
	int flags = rsk_sys_fcntl(fd, F_GETFD, 0);

	if (flags < 0)
		return 0;
	return rsk_epoll_replace(s, fd, end, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
}

/*
 * All descriptors of this process, as the kernel says: a vfork child shares its parent's fd table
 * here, but not its descriptors.
 */
static int place(struct rsk_stream *s, int fd, int end)
{
	uint64_t cookie = rsk_cookie_of(fd);
	uint32_t high = rsk_fd_high();
	int rc = 0;

	for (uint32_t i = 0; i < high; i++)
		if ((int)i != fd && rsk_fd_names((int)i, s) && cookie &&
		    rsk_cookie_of((int)i) == cookie && put_at(s, (int)i, end) < 0)
			rc = -EMFILE;
	return put_at(s, fd, end) < 0 ? -EMFILE : rc;
}

static void shut_alike(struct rsk_stream *s, int fd, int end)
{
	short shown = rsk_stream_ends_shown(fd);

	/*
	 * A reset that has been reported: nothing more can be sent, and the end is an orderly one.
	 * The relay passes on one that has not been reported.
	 */
	if (atomic_load(&s->wr_shut) || (!(shown & POLLERR) && rsk_stream_is_aborted(s, shown)))
		rsk_sys_shutdown(end, SHUT_WR);
	if (atomic_load(&s->rd_shut))
		rsk_sys_shutdown(end, SHUT_RD);
}

/*
 * The bytes of the overread file come before all else that is to be read. They are not taken from
 * the file yet. With such a file the ring is not used, and the TCP socket's bytes come after it.
 */
static int plan_over(struct rsk_stream *s, int fd, struct rsk_relay *r, size_t over)
{
	struct iovec iov = { r->data, over };

	if (!over)
		return 0;
	if (r->before || r->skip)
		return -EAGAIN;
	memmove(r->data + over, r->data, r->down_bytes);
	if (rsk_over_recv(s, fd, &iov, 1, over, true) != (ssize_t)over)
		return -EAGAIN; /* another process has read some of it meanwhile */
	r->down_bytes += over;
	return 0;
}

/*
 * The bytes are taken from the file before the relay starts: whatever another process reads of it
 * from then on, no byte is delivered twice. Returns 0; -errno: nothing has been taken.
 */
static int take_over_and_start(struct rsk_stream *s, int fd, struct rsk_relay *r, size_t over,
			       int end)
{
	struct iovec iov = { r->data, over };
	ssize_t n = over ? rsk_over_recv(s, fd, &iov, 1, over, false) : 0;
	int rc = n == (ssize_t)over ? rsk_relay_start(r, fd, end) : -EAGAIN;

	if (rc < 0 && n > 0)
		rsk_over_put_back(s, (size_t)n);
	return rc;
}

#define FIRST_NS 200000000u /* until the relay gets to run */
#define ROOM_NS 10000000u   /* ... and continues, if there is room */
#define LOOK_NS 100000

/*
 * What the relay passes on: the peer's end, and a reset that has not been reported. The program
 * sees its own shutdowns anyway.
 */
static short ends_to_pass(const struct rsk_stream *s, int tcp)
{
	struct pollfd p = { .fd = tcp, .events = atomic_load(&s->rd_shut) ? 0 : POLLRDHUP };

	if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) <= 0)
		return 0;
	return (short)((p.revents & POLLRDHUP) | (p.revents & POLLERR ? POLLHUP : 0));
}

static bool shows(int end, short ends)
{
	struct pollfd p = { .fd = end, .events = POLLRDHUP };

	return !ends || (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
			 (p.revents & ends) == ends);
}

/*
 * Waits until what could be read before can be read again, and an end that was there is shown: as
 * far as the relay's connection has room, and the relay gets to run.
 */
static void await_first(const struct rsk_stream *s, const struct rsk_relay *r, int tcp, int end,
			int queued)
{
	uint64_t want = r->down_bytes + (uint64_t)queued - r->skip;
	uint64_t until = rsk_now_ns() + FIRST_NS;
	int there = 0, before = 0;

	while (rsk_now_ns() < until) {
		if (rsk_sys_ioctl(end, FIONREAD, &there) < 0)
			return;
		if ((uint64_t)there >= want && shows(end, ends_to_pass(s, tcp)))
			return;
		if (there != before)
			until = rsk_now_ns() + ((uint64_t)there < want ? ROOM_NS : FIRST_NS);
		before = there;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
}

static int plan_and_start(struct rsk_stream *s, int fd, const struct rsk_leaving *l, int end,
			  struct rsk_relay **made)
{
	size_t up = rsk_tx_retransmits(&s->tx) ? (size_t)(s->tx.pos - s->tx.resend.pos) : 0;
	size_t over = (size_t)rsk_over_unread(s);
	struct rsk_relay *r = *made = rsk_relay_new(rsk_rx_relay_bytes(&s->rx) + up + over);
	int rc = r ? plan_rx(s, r, l) : -ENOMEM;

	if (r)
		r->owed = rsk_rx_tcp_owed(&s->rx);
	if (rc == 0)
		rc = plan_over(s, fd, r, over);
	if (rc == 0)
		rc = rsk_tx_relay_plan(&s->tx, r, up);
	return rc < 0 ? rc : take_over_and_start(s, fd, r, over, end);
}

static void over_resets(struct rsk_stream *s, int fd, bool on)
{
	rsk_lock(&s->rx_lock);
	if (!on || rsk_over_unread(s))
		rsk_resets(s, fd, RSK_RESETS_UNREAD, on);
	rsk_unlock(&s->rx_lock);
}

static void owed_resets(struct rsk_stream *s, int fd, bool on)
{
	rsk_lock(&s->tx_lock);
	if (!on || (s->link->remote && rsk_tx_retransmits(&s->tx)))
		rsk_resets(s, fd, RSK_RESETS_OWED, on);
	rsk_unlock(&s->tx_lock);
}

int rsk_stream_relay(struct rsk_stream *s, int fd, enum rsk_reason why, const struct rsk_leaving *l)
{
	struct rsk_relay *r = NULL;
	int fds[2], queued = 0, rc;

	if (rsk_stream_failed(s))
		return 0; /* there are no bytes to be had any more */
	/*
	 * From then on nothing is unread there, or owed; and the options must be right before they
	 * are copied.
	 */
	over_resets(s, fd, false);
	owed_resets(s, fd, false);
	rc = rsk_relay_pair(fd, fds);
	if (rc < 0) {
		over_resets(s, fd, true);
		owed_resets(s, fd, true);
		return rc;
	}
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	rsk_sys_ioctl(fd, FIONREAD, &queued);
	rc = plan_and_start(s, fd, l, fds[1], &r);
	if (rc == 0) {
		if (!l->again)
			rsk_rx_relay_done(&s->rx, r);
		rsk_tx_relay_done(&s->tx);
		rsk_stream_note(s, false, why);
		rsk_stream_note(s, true, why);
	}
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	rsk_sigdefer_exit();
	rsk_sys_close(fds[1]);
	if (rc == 0) {
		rsk_log(RSK_LOG_INFO, "fd %d: %zu bytes of the ring go by a relay", fd,
			r->down_bytes);
		rsk_stats_event(s->rec, rsk_now_ns(), RSK_EVENT_RELAYED, why);
		/*
		 * What comes to an end that is shut both ways is answered by a reset: so this comes
		 * first.
		 */
		await_first(s, r, fd, fds[0], queued);
		shut_alike(s, fd, fds[0]);
		rsk_epoll_restore(s);
		rc = place(s, fd, fds[0]);
	} else {
		over_resets(s, fd, true);
		owed_resets(s, fd, true);
		rsk_log(RSK_LOG_INFO, "fd %d: no relay: %d", fd, rc);
	}
	rsk_sys_close(fds[0]);
	rsk_relay_free(r);
	return rc;
}

int rsk_stream_relay_error(struct rsk_stream *s, int fd)
{
	const struct linger reset = { .l_onoff = 1 };
	int fds[2], rc;
	bool err;

	rsk_lock(&s->rx_lock);
	err = s->rx.tcp.err;
	rsk_unlock(&s->rx_lock);
	if (!err)
		return 0;
	rc = rsk_relay_pair(fd, fds);
	if (rc < 0)
		return rc;
	rsk_sys_setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	rsk_sys_close(fds[1]);
	rsk_sys_ppoll(&(struct pollfd){ .fd = fds[0] }, 1,
		      &(struct timespec){ .tv_nsec = FIRST_NS }, NULL);
	rsk_lock(&s->rx_lock);
	s->rx.tcp.err = 0;
	rsk_unlock(&s->rx_lock);
	rsk_epoll_restore(s);
	rc = place(s, fd, fds[0]);
	rsk_sys_close(fds[0]);
	return rc;
}
