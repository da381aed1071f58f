// SPDX-License-Identifier: BSD-2-Clause
/* syn.c - see syn.h. */
#include "syn.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "engine.h"
#include "stream.h"

#define TCP_STATE_ESTABLISHED 1
#define IP4_MOST 60
#define TCP_LEAST 20
#define TCP_MOST 60
#define LINK_MOST 32 /* Ethernet with tags is 22 */
#define CONTROL_BYTES 256
#define LATE_TRIES 16
#define READING_NS 10000
#define ROOM_BYTES (8 * RSK_SYN_SEND_BYTES)

/* Set by any thread, never cleared; relaxed. */
static _Atomic(bool) programs, kept;
/* The reading lock: syn.h. */
static _Atomic(bool) reading;
_Atomic(bool) rsk_syn_some_shown;
_Atomic(uint32_t) rsk_syn_taken;

void rsk_syn_is_the_programs(void)
{
	atomic_store_explicit(&programs, true, memory_order_relaxed);
}

static bool left_alone(void)
{
	return atomic_load_explicit(&programs, memory_order_relaxed);
}

bool rsk_syn_hidden(void)
{
	return atomic_load_explicit(&kept, memory_order_relaxed) && !left_alone();
}

void rsk_syn_keep(int listener)
{
	socklen_t len = sizeof(int);
	int is = 0, on = 1;

	if (left_alone() || rsk_sys_getsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &is, &len) < 0)
		return;
	if (is) {
		/* By us; or by a program before this one, which may want them. */
		if (!rsk_syn_hidden())
			rsk_syn_is_the_programs();
		return;
	}
	atomic_store_explicit(&kept, true, memory_order_relaxed);
	rsk_sys_setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on));
}

/* ---- headers ---- */

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)be16(p) << 16 | be16(p + 2);
}

/* What a packet of TCP says; its fields of rsk_syn, and where the bytes of the stream begin. */
struct segment {
	uint32_t seq;
	uint16_t mark;
	bool ipv6;
	size_t bytes; /* of the stream */
};

/* The sum of the words of an IPv4 header is all ones. */
static bool sums_up(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i += 2)
		sum += be16(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16)) == 0xffff;
}

/*
 * False: @p does not begin with the IP header of a segment of TCP. @whole: the bytes behind it are
 * there, and those of the stream are @whole.
 */
static bool parse(const uint8_t *p, size_t n, size_t whole, struct segment *out)
{
	size_t ip = 0, tcp;

	if (n >= sizeof(struct iphdr) && p[0] >> 4 == 4) {
		ip = (size_t)(p[0] & 15) * 4;
		if (ip < sizeof(struct iphdr) || ip > n || p[9] != IPPROTO_TCP || !sums_up(p, ip))
			return false;
		out->mark = be16(p + 4);
		out->ipv6 = false;
	} else if (n >= sizeof(struct ip6_hdr) && p[0] >> 4 == 6 && p[6] == IPPROTO_TCP) {
		ip = sizeof(struct ip6_hdr);
		out->mark = be16(p + 2);
		out->ipv6 = true;
	}
	if (!ip || ip + TCP_LEAST > n)
		return false;
	tcp = (size_t)(p[ip + 12] >> 4) * 4;
	if (tcp < TCP_LEAST || ip + tcp > n)
		return false;
	out->seq = be32(p + ip + 4);
	out->bytes = n - ip - tcp;
	return !whole || out->bytes <= whole;
}

/* A flow label of 0 is none, and no secret. */
static uint16_t marks(const struct segment *g, uint32_t n)
{
	return g->ipv6 && !g->mark ? 0 : (uint16_t)n;
}

static struct rsk_syn accepted(int fd)
{
	uint8_t packet[sizeof(struct ip6_hdr) + IP4_MOST + TCP_MOST];
	socklen_t len = sizeof(packet);
	struct segment g;

	/* It can be read once. */
	if (!rsk_syn_hidden() ||
	    rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, packet, &len) < 0 ||
	    !parse(packet, len, 0, &g))
		return (struct rsk_syn){ 0 };
	return (struct rsk_syn){ .seq = g.seq, .mark = g.mark, .n = marks(&g, 1) };
}

bool rsk_syn_learn(struct rsk_stream *s, int fd, struct rsk_syn *out)
{
	if (!s->connecting_side && !s->syn.looked) {
		s->syn.looked = true;
		s->syn.is = accepted(fd);
	}
	*out = s->syn.is;
	return out->n;
}

/* ---- a segment that is sent ---- */

bool rsk_syn_reading_try(void)
{
	rsk_sigdefer_enter();
	if (!atomic_exchange(&reading, true))
		return true;
	rsk_sigdefer_exit();
	return false;
}

void rsk_syn_reading_end(void)
{
	atomic_store(&reading, false);
	rsk_sigdefer_exit();
}

void rsk_syn_forked(void)
{
	atomic_store(&reading, false);
}

/* What the kernel knows of the connection before and after the send. */
struct counts {
	uint64_t bytes;		  /* of the stream that were sent */
	uint32_t segments, piece; /* sent; bytes of the stream in each, at most */
	uint32_t most;		  /* bytes that the peer and the network take at once */
	bool at_rest; /* nothing is unsent or unacknowledged: the next segment leaves at once */
};

static bool count(int fd, struct counts *c)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	/* tcpi_snd_wnd came with Linux 5.4. */
	if (rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) < 0 ||
	    len < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(ti.tcpi_snd_wnd))
		return false;
	c->bytes = ti.tcpi_bytes_sent - ti.tcpi_bytes_retrans;
	c->segments = ti.tcpi_segs_out;
	c->piece = ti.tcpi_snd_mss ? ti.tcpi_snd_mss : 1;
	c->most = ti.tcpi_snd_cwnd < RSK_SYN_SEND_BYTES ? ti.tcpi_snd_cwnd * c->piece :
							  RSK_SYN_SEND_BYTES;
	if (c->most > ti.tcpi_snd_wnd)
		c->most = ti.tcpi_snd_wnd;
	c->at_rest = ti.tcpi_state == TCP_STATE_ESTABLISHED && !ti.tcpi_notsent_bytes &&
		     !ti.tcpi_unacked;
	return true;
}

static bool is_option(int fd, int level, int name, uint64_t least, uint64_t most)
{
	uint64_t value = 0;
	socklen_t len = sizeof(value);

	return rsk_sys_getsockopt(fd, level, name, &value, &len) == 0 && value >= least &&
	       value <= most;
}

bool rsk_syn_is_near(int fd, uint32_t most_us)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	return rsk_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) == 0 &&
	       ti.tcpi_min_rtt <= most_us;
}

/* The program reads the error queue, or may: for errors of the network, or for what it sends. */
static bool is_programs_queue(int fd)
{
	return is_option(fd, IPPROTO_IP, IP_RECVERR, 1, 1) ||
	       is_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1, 1) ||
	       is_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1, 1) ||
	       is_option(fd, SOL_SOCKET, SO_TIMESTAMPING, 1, UINT32_MAX);
}

/*
 * Nothing holds the next segment back: a cork, a rate that the program has set (UINT64_MAX, or
 * UINT32_MAX where the kernel has 32 bits: none), a buffer in which it has no room.
 */
static bool leaves_at_once(int fd)
{
	return is_option(fd, IPPROTO_TCP, TCP_CORK, 0, 0) &&
	       is_option(fd, SOL_SOCKET, SO_MAX_PACING_RATE, UINT32_MAX, UINT64_MAX) &&
	       is_option(fd, SOL_SOCKET, SO_SNDBUF, ROOM_BYTES, UINT32_MAX);
}

/* The bytes of a packet from the error queue; 0: it is empty. */
static size_t take(int fd, uint8_t *packet, size_t most)
{
	uint8_t control[CONTROL_BYTES];
	struct iovec iov = { packet, most };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = rsk_sys_recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (n <= 0)
		return 0;
	atomic_fetch_add_explicit(&rsk_syn_taken, 1, memory_order_relaxed);
	return (size_t)n;
}

void rsk_syn_take_late(struct rsk_stream *s, int fd)
{
	uint8_t packet[1], late = RSK_SYN_LATE;

	/* The program's completions are in the queue, too, or may be. */
	if (is_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1, 1))
		return;
	if (take(fd, packet, sizeof(packet)))
		atomic_compare_exchange_strong(&s->syn.asked, &late, RSK_SYN_ASKED);
}

void rsk_syn_take_shown(struct rsk_stream *s, int fd)
{
	/* Not sched_yield(), which lets no thread of a lower priority run. */
	while (!rsk_syn_reading_try()) {
		struct timespec pause = { .tv_nsec = READING_NS };

		rsk_sys_ppoll(NULL, 0, &pause, NULL);
	}
	rsk_syn_take_late(s, fd);
	rsk_syn_reading_end();
}

/*
 * The packets of the send, one for each device that it passes. All show the same segment; of one
 * with more headers in front (a tunnel) the first that can be read is taken. Returns how many.
 */
static int shown(int fd, size_t sent, struct segment *out)
{
	uint8_t packet[LINK_MOST + IP4_MOST + TCP_MOST + RSK_SYN_SEND_BYTES];
	size_t n;
	int packets = 0;

	out->bytes = 0;
	for (int i = 0; i < LATE_TRIES; i++) {
		n = take(fd, packet, sizeof(packet));
		if (!n && packets)
			break;
		packets += n != 0;
		for (size_t at = 0; n && !out->bytes && at <= LINK_MOST && at < n; at += 2)
			if (!parse(packet + at, n - at, sent, out))
				out->bytes = 0;
	}
	return packets;
}

static ssize_t send_stamped(int fd, const struct iovec *iov, int n, int flags)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(what))];
	} control = { .space = { 0 } };
	struct msghdr m = { .msg_iov = (struct iovec *)iov,
			    .msg_iovlen = (size_t)n,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SO_TIMESTAMPING,
					 .cmsg_len = CMSG_LEN(sizeof(what)) };
	memcpy(CMSG_DATA(&control.head), &what, sizeof(what));
	return rsk_sys_sendmsg(fd, &m, flags);
}

/*
 * The kernel shows the packet with the last byte of the send: here the only one. Between the two
 * counts it may have sent segments without bytes, ahead of it.
 */
static struct rsk_syn count_back(const struct segment *g, size_t sent, const struct counts *before,
				 const struct counts *after)
{
	uint32_t pieces = (uint32_t)((sent + after->piece - 1) / after->piece);
	uint32_t all = after->segments - before->segments;
	uint32_t ahead = all > pieces ? all - pieces : 0;
	struct rsk_syn syn = { .seq = g->seq - 1 - (uint32_t)before->bytes, .mark = g->mark };

	if (!g->bytes || g->bytes != sent || after->bytes != before->bytes + sent ||
	    ahead >= RSK_SYN_MARKS_MOST)
		return syn;
	/* Each segment has the identification after that of the one before; the label stays. */
	if (!g->ipv6)
		syn.mark = (uint16_t)(g->mark - before->segments - ahead);
	syn.n = marks(g, g->ipv6 ? 1 : ahead + 1);
	return syn;
}

ssize_t rsk_syn_send(struct rsk_stream *s, int fd, const struct iovec *iov, int n, int flags,
		     struct rsk_syn *out, bool *late)
{
	struct counts before, after;
	struct segment g = { 0 };
	size_t bytes = 0;
	ssize_t sent;

	out->n = 0;
	*late = false;
	for (int i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	if (!count(fd, &before) || !before.at_rest || bytes > before.most || !leaves_at_once(fd) ||
	    is_programs_queue(fd))
		return -RSK_EKERNEL;
	atomic_store(&s->syn.shown, true);
	atomic_store_explicit(&rsk_syn_some_shown, true, memory_order_relaxed);
	sent = send_stamped(fd, iov, n, flags | MSG_DONTWAIT);
	if (sent == -EAGAIN)
		return -RSK_EKERNEL;
	if (sent <= 0)
		return sent;
	*late = shown(fd, (size_t)sent, &g) == 0;
	if (!*late && count(fd, &after))
		*out = count_back(&g, (size_t)sent, &before, &after);
	return sent;
}
