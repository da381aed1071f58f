// SPDX-License-Identifier: BSD-2-Clause
/*
 * kernel.c - the operations on a stream's TCP socket as a real socket of this process, for the
 * direction machines (tcp_socket.h), and queries of the kernel about it (stream.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "over.h"
#include "resets.h"
#include "stamps.h"
#include "stream.h"

#define TCP_STATE_ESTABLISHED 1
#define TCP_STATE_FIN_WAIT1 4
#define TCP_STATE_FIN_WAIT2 5
#define TCP_STATE_CLOSE_WAIT 8
#define MAX_IOV 64
#define SMALL_BYTES 2048 /* less than two Ethernet segments */
#define POSITION_TRIES 64

/*
 * Writes the first @cap bytes of the vector after @skip to @out, as far as MAX_IOV entries go;
 * returns the entries used. Empty entries are left out: with only these, a read would return 0,
 * which means the end.
 */
static int cut_iov(const struct iovec *iov, int n, size_t skip, size_t cap,
		   struct iovec out[static MAX_IOV])
{
	int k = 0;

	for (int i = 0; i < n && k < MAX_IOV && cap; i++) {
		size_t off = skip < iov[i].iov_len ? skip : iov[i].iov_len;

		skip -= off;
		if (off == iov[i].iov_len)
			continue;
		out[k].iov_base = (uint8_t *)iov[i].iov_base + off;
		out[k].iov_len = iov[i].iov_len - off < cap ? iov[i].iov_len - off : cap;
		cap -= out[k].iov_len;
		k++;
	}
	return k;
}

static ssize_t kernel_send(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	struct rsk_kernel_tcp *k = (struct rsk_kernel_tcp *)c;
	struct iovec cut[MAX_IOV];
	struct msghdr m = { .msg_iov = cut };
	ssize_t done;

	m.msg_iovlen = (size_t)cut_iov(iov, n, 0, cap, cut);
	rsk_kernel_calls++;
	done = rsk_sys_sendmsg(c->fd, &m, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done > 0) {
		atomic_fetch_add_explicit(&k->s->tcp_bytes.tx, (uint64_t)done,
					  memory_order_relaxed);
		rsk_stats_add(&k->s->rec->tx_tcp_bytes, (uint64_t)done);
		rsk_stats_add(&k->s->rec->tx_tcp_calls, 1);
	}
	return done;
}

/*
 * Our answers go by the ring, and carry no ACK for which a small message of the peer may wait
 * (Nagle's algorithm): up to 40 ms if our ACK is delayed. So the ACK is sent at once. For many
 * bytes the kernel does not delay it.
 */
static void acknowledge(const struct rsk_stream *s, int fd, ssize_t bytes)
{
	int on = 1;

	if (bytes < SMALL_BYTES && __atomic_load_n(&s->rec->tx, __ATOMIC_RELAXED) == RSK_PATH_RING)
		rsk_sys_setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/*
 * After @over bytes, the last ones of the overread file: true if the socket has more. An error or
 * the end is for the next call.
 */
static bool goes_on(int fd, size_t over, size_t cap)
{
	int inq = 0;

	return over < cap && rsk_sys_ioctl(fd, FIONREAD, &inq) == 0 && inq > 0;
}

static ssize_t kernel_recv(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	struct rsk_kernel_tcp *k = (struct rsk_kernel_tcp *)c;
	struct iovec cut[MAX_IOV];
	struct msghdr m = { .msg_iov = cut };
	ssize_t done, over = 0;

	/*
	 * After the end of the ring: what the socket has, an error too, is for the call that reads
	 * it.
	 */
	if (k->socket_alone && k->s->rx.state == RSK_RX_TCP && !rsk_rx_in_race(&k->s->rx) &&
	    !k->s->rx.skip)
		return -EAGAIN;
	if (rsk_over_is(k->s) && !k->socket_alone) {
		over = rsk_over_recv(k->s, c->fd, iov, n, cap, flags & MSG_PEEK);
		if (over < 0 || (over > 0 && !goes_on(c->fd, (size_t)over, cap)))
			return over;
	}
	m.msg_iovlen = (size_t)cut_iov(iov, n, (size_t)over, cap - (size_t)over, cut);
	if (__builtin_expect(atomic_load_explicit(&k->s->stamps, memory_order_relaxed), 0))
		done = rsk_stamps_recv(k->s, c->fd, &m, flags | MSG_DONTWAIT);
	else
		done = rsk_sys_recvmsg(c->fd, &m, flags | MSG_DONTWAIT);
	if (done > 0 && !(flags & MSG_PEEK)) {
		atomic_fetch_add_explicit(&k->s->tcp_bytes.rx, (uint64_t)done,
					  memory_order_relaxed);
		rsk_stats_add(&k->s->rec->rx_tcp_bytes, (uint64_t)done);
		rsk_stats_add(&k->s->rec->rx_tcp_calls, 1);
		acknowledge(k->s, c->fd, done);
	}
	return over && done < 0 ? over : over + done;
}

/* @end: of the fields that are needed. */
static int tcp_info_to(int fd, struct tcp_info *ti, size_t end)
{
	socklen_t len = sizeof(*ti);
	int rc = rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len);

	return rc < 0 ? rc : len < end ? -EOPNOTSUPP : 0;
}

/* tcpi_bytes_received came with Linux 4.1. */
static int tcp_info(int fd, struct tcp_info *ti)
{
	return tcp_info_to(fd, ti,
			   offsetof(struct tcp_info, tcpi_bytes_received) +
				   sizeof(ti->tcpi_bytes_received));
}

/* tcpi_bytes_sent and tcpi_bytes_retrans came with Linux 4.19. */
static int tcp_info_sent(int fd, struct tcp_info *ti)
{
	return tcp_info_to(fd, ti,
			   offsetof(struct tcp_info, tcpi_bytes_retrans) +
				   sizeof(ti->tcpi_bytes_retrans));
}

/* Bytes written = bytes acked + bytes unacked (minus the SYN on the connecting side). */
int rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos)
{
	struct tcp_info a, b;
	int outq, rc;

	for (int i = 0; i < POSITION_TRIES; i++) {
		rc = tcp_info(fd, &a);
		if (rc < 0)
			return rc == -EAGAIN ? -EIO : rc;
		rc = rsk_sys_ioctl(fd, SIOCOUTQ, &outq);
		if (rc < 0)
			return -EIO;
		rc = tcp_info(fd, &b);
		if (rc < 0)
			return -EIO;
		if (a.tcpi_bytes_acked != b.tcpi_bytes_acked)
			continue;
		/* At the end: a FIN that was sent meanwhile counts as a byte. */
		if (b.tcpi_state != TCP_STATE_ESTABLISHED && b.tcpi_state != TCP_STATE_CLOSE_WAIT)
			return -EPIPE;
		*pos = a.tcpi_bytes_acked + (uint64_t)outq - (connecting_side ? 1 : 0);
		return 0;
	}
	return -EAGAIN;
}

uint32_t rsk_kernel_unacked(int fd)
{
	int outq;

	return rsk_sys_ioctl(fd, SIOCOUTQ, &outq) < 0 || outq < 0 ? 0 : (uint32_t)outq;
}

static bool peer_may_send(const struct tcp_info *ti)
{
	return ti->tcpi_state == TCP_STATE_ESTABLISHED || ti->tcpi_state == TCP_STATE_FIN_WAIT1 ||
	       ti->tcpi_state == TCP_STATE_FIN_WAIT2;
}

/* The kernel counts the FIN as a byte. */
int rsk_kernel_received(int fd, uint64_t *pos)
{
	struct tcp_info ti;
	int rc = tcp_info(fd, &ti);

	if (rc < 0)
		return rc;
	rc = !peer_may_send(&ti);
	*pos = ti.tcpi_bytes_received - (rc && ti.tcpi_bytes_received);
	return rc;
}

bool rsk_kernel_established(int fd)
{
	struct tcp_info ti;

	return tcp_info(fd, &ti) == 0 && ti.tcpi_state == TCP_STATE_ESTABLISHED;
}

/*
 * Compares the kernel's count with what passed our hooks. If they differ, calls that no hook sees
 * moved bytes, and the next such call would not see the ring: both directions fall back.
 */
static int counted(struct rsk_stream *s, uint64_t kernels, uint64_t ours)
{
	if (kernels == ours)
		return 0;
	rsk_stats_set_reason(s->rec, RSK_REASON_POSITION_MISMATCH);
	atomic_store_explicit(&s->fallback_due, RSK_REASON_POSITION_MISMATCH, memory_order_relaxed);
	return -EBADE;
}

static int kernel_tx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	struct rsk_stream *s = ((struct rsk_kernel_tcp *)c)->s;
	int rc;

	if (rsk_stream_plain(s, true))
		return -EAGAIN;
	rc = rsk_kernel_written(c->fd, s->connecting_side, pos);
	if (rc < 0)
		return rc;
	return counted(s, *pos, atomic_load(&s->tcp_bytes.tx));
}

/* Bytes consumed = bytes received - bytes unread. */
static int kernel_rx_pos(struct rsk_tcp *c, uint64_t *pos)
{
	struct rsk_stream *s = ((struct rsk_kernel_tcp *)c)->s;
	struct tcp_info a, b;
	int inq, rc;

	if (rsk_stream_plain(s, false) || rsk_over_unread(s))
		return -EAGAIN;
	for (int i = 0; i < POSITION_TRIES; i++) {
		rc = tcp_info(c->fd, &a);
		if (rc < 0)
			return rc == -EAGAIN ? -EIO : rc;
		rc = rsk_sys_ioctl(c->fd, SIOCINQ, &inq);
		if (rc < 0)
			return -EIO;
		rc = tcp_info(c->fd, &b);
		if (rc < 0)
			return -EIO;
		if (a.tcpi_bytes_received != b.tcpi_bytes_received)
			continue;
		if (!peer_may_send(&a))
			return -EPIPE;
		*pos = a.tcpi_bytes_received - (uint64_t)inq;
		return counted(s, *pos, atomic_load(&s->tcp_bytes.rx));
	}
	return -EAGAIN;
}

/*
 * Where the two kinds of ends differ: the SYN of the connecting one was acknowledged, and counts as
 * a byte in tcpi_bytes_acked, but not in tcpi_bytes_sent. With segments sent twice this cannot be
 * told, since not each of them counts in both.
 */
int rsk_kernel_positions(int fd, struct rsk_positions *out)
{
	struct tcp_info a, b;
	int outq, inq;
	uint64_t side;

	for (int i = 0; i < POSITION_TRIES; i++) {
		int rc = tcp_info_sent(fd, &a);

		if (rc < 0)
			return rc;
		if (rsk_sys_ioctl(fd, SIOCOUTQ, &outq) < 0 || rsk_sys_ioctl(fd, SIOCINQ, &inq) < 0)
			return -EIO;
		rc = tcp_info_sent(fd, &b);
		if (rc < 0)
			return rc;
		if (a.tcpi_bytes_acked != b.tcpi_bytes_acked ||
		    a.tcpi_bytes_received != b.tcpi_bytes_received ||
		    a.tcpi_bytes_sent != b.tcpi_bytes_sent ||
		    a.tcpi_notsent_bytes != b.tcpi_notsent_bytes)
			continue;
		if (b.tcpi_state != TCP_STATE_ESTABLISHED)
			return -ENOTCONN;
		if (b.tcpi_bytes_retrans || (b.tcpi_options & TCPI_OPT_SYN_DATA))
			return -EOPNOTSUPP;
		side = a.tcpi_bytes_acked + (uint64_t)outq - a.tcpi_notsent_bytes -
		       a.tcpi_bytes_sent;
		if (side > 1)
			return -EOPNOTSUPP;
		out->connecting_side = side;
		out->tx = a.tcpi_bytes_acked + (uint64_t)outq - side;
		out->rx = a.tcpi_bytes_received - (uint64_t)inq;
		return 0;
	}
	return -EAGAIN;
}

static bool kernel_at_mark(struct rsk_tcp *c)
{
	int at = 0;

	return rsk_sys_ioctl(c->fd, SIOCATMARK, &at) == 0 && at;
}

static bool kernel_ahead(struct rsk_tcp *c)
{
	struct rsk_kernel_tcp *k = (struct rsk_kernel_tcp *)c;

	return !k->socket_alone && rsk_over_unread(k->s);
}

/* POLLERR alone may come from the error queue. */
bool rsk_kernel_error_next(int fd)
{
	struct pollfd p = { .fd = fd };
	int queued = 0;

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 &&
	       (p.revents & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP) &&
	       rsk_sys_ioctl(fd, FIONREAD, &queued) == 0 && !queued;
}

static bool kernel_errs(struct rsk_tcp *c)
{
	return rsk_kernel_error_next(c->fd) && !kernel_ahead(c);
}

/* A socket that has ended accepts it as well. */
static int kernel_fin(struct rsk_tcp *c)
{
	if (c->fd < 0)
		return -EBADF;
	rsk_sys_shutdown(c->fd, SHUT_WR);
	return 0;
}

static bool kernel_at_end(struct rsk_tcp *c)
{
	struct rsk_kernel_tcp *k = (struct rsk_kernel_tcp *)c;
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return !atomic_load(&k->s->rd_shut) &&
	       rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0;
}

static int kernel_end_pos(struct rsk_tcp *c, uint64_t *pos)
{
	int rc = atomic_load(&((struct rsk_kernel_tcp *)c)->s->rd_shut) ?
			 0 :
			 rsk_kernel_received(c->fd, pos);

	return rc > 0 ? 0 : rc < 0 ? rc : -EAGAIN;
}

/* On this host the ring outlives the process that put the bytes. */
static void kernel_owes(struct rsk_tcp *c, bool some)
{
	struct rsk_stream *s = ((struct rsk_kernel_tcp *)c)->s;

	if (s->link && s->link->remote)
		rsk_resets(s, c->fd, RSK_RESETS_OWED, some);
}

static const struct rsk_tcp_ops kernel_ops = {
	.ahead = kernel_ahead,
	.at_mark = kernel_at_mark,
	.errs = kernel_errs,
	.at_end = kernel_at_end,
	.end_pos = kernel_end_pos,
	.fin = kernel_fin,
	.owes = kernel_owes,
	.send = kernel_send,
	.recv = kernel_recv,
	.tx_pos = kernel_tx_pos,
	.rx_pos = kernel_rx_pos,
};

void rsk_kernel_tcp_init(struct rsk_kernel_tcp *k, struct rsk_stream *s, int fd)
{
	k->c.ops = &kernel_ops;
	k->c.fd = fd;
	k->s = s;
	k->socket_alone = false;
}

/* @unknown: the result if the kernel does not know the option. */
static int option_of(int fd, int name, int unknown)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return rsk_sys_getsockopt(fd, SOL_SOCKET, name, &v, &len) < 0 ? unknown : v;
}

static bool option_is(int fd, int name, int wanted)
{
	return option_of(fd, name, -1) == wanted;
}

bool rsk_kernel_speaks_tcp(int fd)
{
	return option_is(fd, SO_PROTOCOL, IPPROTO_TCP);
}

bool rsk_kernel_is_tcp(int fd)
{
	return rsk_kernel_speaks_tcp(fd) && option_is(fd, SO_TYPE, SOCK_STREAM);
}

enum rsk_reason rsk_kernel_refuses(int fd, enum rsk_stamps stamps)
{
	if (stamps == RSK_STAMPS_KERNEL)
		return RSK_REASON_MESSAGES;
	return option_of(fd, SO_PEEK_OFF, -1) >= 0 ? RSK_REASON_UNSUPPORTED : RSK_REASON_DIRECT;
}

/* Options that, set where the library does not see it, make a stream stay on TCP. */
bool rsk_kernel_unfit(int fd)
{
	static const struct {
		int level, name;
	} set[] = {
		{ SOL_SOCKET, SO_ZEROCOPY },
		{ IPPROTO_TCP, TCP_REPAIR },
		{ IPPROTO_TCP, TCP_INQ },
	};
	char ulp[16];
	socklen_t len = sizeof(ulp);
	int flags = rsk_sys_fcntl(fd, F_GETFL, 0);

	if (flags < 0 || (flags & O_ASYNC))
		return true;
	/* Without one, the kernel returns no text. */
	if (rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &len) == 0 && len)
		return true;
	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
		int v = 0;

		len = sizeof(v);
		if (rsk_sys_getsockopt(fd, set[i].level, set[i].name, &v, &len) == 0 && v)
			return true;
	}
	return rsk_kernel_refuses(fd, rsk_stamps_asked(fd)) != RSK_REASON_DIRECT;
}

bool rsk_kernel_nonblock(int fd)
{
	int flags = rsk_sys_fcntl(fd, F_GETFL, 0);

	return flags >= 0 && (flags & O_NONBLOCK);
}

bool rsk_kernel_has_zerocopy(int fd)
{
	return option_is(fd, SO_ZEROCOPY, 1);
}
