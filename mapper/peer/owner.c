// SPDX-License-Identifier: BSD-2-Clause
/* owner.c - see owner.h. */
#include "owner.h"
#include "tuple.h"
#include "user.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rsock/sys.h>

struct diag_request {
	struct nlmsghdr nlh;
	struct inet_diag_req_v2 req;
};

/* Big enough for one inet_diag_msg with the attributes that the kernel adds unasked. */
#define REPLY_BYTES 1024

/* Writes an IPv4 address plain, or v4-mapped for sockets that are IPv6 ones. */
static void put_addr(__be32 to[static 4], const uint8_t addr[static 16], bool mapped)
{
	uint8_t bytes[16] = { 0 };

	if (mapped) {
		bytes[10] = 0xff;
		bytes[11] = 0xff;
		memcpy(bytes + 12, addr, 4);
	} else {
		memcpy(bytes, addr, 16);
	}
	memcpy(to, bytes, 16);
}

/* True if the answer is about the tuple that was asked for, in either notation. */
static bool answer_is_for(const struct inet_diag_msg *m, const struct rsk_tuple *end)
{
	__be32 src[4], dst[4];
	bool mapped = m->idiag_family == AF_INET6 && end->family == AF_INET;
	size_t len = m->idiag_family == AF_INET ? 4 : 16;

	if (m->idiag_family != end->family && !mapped)
		return false;
	put_addr(src, end->local, mapped);
	put_addr(dst, end->peer, mapped);
	return memcmp(m->id.idiag_src, src, len) == 0 && memcmp(m->id.idiag_dst, dst, len) == 0 &&
	       ntohs(m->id.idiag_sport) == end->local_port &&
	       ntohs(m->id.idiag_dport) == end->peer_port;
}

/* Parses one reply; everything in it is copied before it is checked. */
static int parse_reply(const uint8_t *buf, size_t len, uint32_t seq, const struct rsk_tuple *end,
		       struct rsk_owner *out)
{
	struct inet_diag_msg m;
	struct nlmsghdr nlh;

	if (len < sizeof(nlh))
		return -EPROTO;
	memcpy(&nlh, buf, sizeof(nlh));
	if (nlh.nlmsg_len < sizeof(nlh) || nlh.nlmsg_len > len || nlh.nlmsg_seq != seq)
		return -EPROTO;
	if (nlh.nlmsg_type == NLMSG_ERROR) {
		int err;

		if (nlh.nlmsg_len < NLMSG_HDRLEN + sizeof(err))
			return -EPROTO;
		memcpy(&err, buf + NLMSG_HDRLEN, sizeof(err));
		/*
		 * A kernel without inet_diag also returns -ENOENT, or -EINVAL: see rsk_owner_is().
		 */
		return err < 0 ? err : -EPROTO;
	}
	if (nlh.nlmsg_type != SOCK_DIAG_BY_FAMILY || nlh.nlmsg_len < NLMSG_HDRLEN + sizeof(m))
		return -EPROTO;
	memcpy(&m, buf + NLMSG_HDRLEN, sizeof(m));
	/* The kernel's lookup falls back to listeners and to half-open requests. */
	if (m.idiag_state == TCP_LISTEN || m.idiag_state == TCP_SYN_RECV || !answer_is_for(&m, end))
		return -ENOENT;
	*out = (struct rsk_owner){
		.cookie = (uint64_t)m.id.idiag_cookie[1] << 32 | m.id.idiag_cookie[0],
		.inode = m.idiag_inode,
		.uid = m.idiag_uid,
		.state = m.idiag_state,
		.rqueue_bytes = m.idiag_rqueue,
		.wqueue_bytes = m.idiag_wqueue,
	};
	return 0;
}

/* Sends one query over an open netlink socket. The kernel answers within sendto(). */
static int ask(int nl, const struct rsk_tuple *end, uint8_t family, uint32_t seq,
	       struct rsk_owner *out)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	bool mapped = family == AF_INET6 && end->family == AF_INET;
	uint8_t reply[REPLY_BYTES];
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	struct diag_request q = {
		.nlh = {
			.nlmsg_len = sizeof(q),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = seq,
		},
		.req = {
			.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = (uint32_t)-1,
			.id = {
				.idiag_sport = htons(end->local_port),
				.idiag_dport = htons(end->peer_port),
				.idiag_if = end->scope,
				.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
			},
		},
	};
	ssize_t n;

	put_addr(q.req.id.idiag_src, end->local, mapped);
	put_addr(q.req.id.idiag_dst, end->peer, mapped);
	do {
		n = rsk_sys_sendto(nl, &q, sizeof(q), 0, &kernel, sizeof(kernel));
	} while (n == -EINTR);
	if (n < 0)
		return (int)n;
	do {
		n = rsk_sys_recvfrom(nl, reply, sizeof(reply), MSG_DONTWAIT, &from, &from_len);
	} while (n == -EINTR);
	if (n < 0)
		return n == -EAGAIN ? -EOPNOTSUPP : (int)n;
	/* Any process may send to a netlink socket; the kernel's port id is 0. */
	if (from_len != sizeof(from) || from.nl_pid != 0)
		return -EPROTO;
	return parse_reply(reply, (size_t)n, seq, end, out);
}

static int lookup(int nl, const struct rsk_tuple *end, struct rsk_owner *out)
{
	int err = ask(nl, end, (uint8_t)end->family, 1, out);

	/*
	 * An IPv4 query finds v4-mapped sockets too if one table holds both; query in the other
	 * notation before concluding that there is none.
	 */
	if (err == -ENOENT && end->family == AF_INET) {
		int err6 = ask(nl, end, AF_INET6, 2, out);

		if (err6 != -EOPNOTSUPP && err6 != -EINVAL && err6 != -EAFNOSUPPORT)
			err = err6;
	}
	return err;
}

/* Opens a netlink socket in the namespace that the tuple names. Returns it or -errno. */
static int netlink_open(const struct rsk_tuple *end)
{
	int nl = rsk_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (nl < 0)
		return nl == -EMFILE || nl == -ENFILE || nl == -ENOMEM ? nl : -EOPNOTSUPP;
	if (end->netns && rsk_netns_of_fd(nl) != end->netns) {
		rsk_sys_close(nl);
		return -EOPNOTSUPP;
	}
	return nl;
}

int rsk_owner_lookup(const struct rsk_tuple *end, struct rsk_owner *out)
{
	int nl = netlink_open(end);
	int err;

	if (nl < 0)
		return nl;
	err = lookup(nl, end, out);
	rsk_sys_close(nl);
	return err;
}

static char *put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	return at;
}

static char *put_u32(char *at, uint32_t value)
{
	char digits[10];
	unsigned int n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (n)
		*at++ = digits[--n];
	return at;
}

int rsk_owner_holds(pid_t pid, int fd, uint32_t inode)
{
	char path[48], want[32], have[32];
	char *at;
	ssize_t n;

	if (pid <= 0 || fd < 0 || inode == 0)
		return -ESTALE;
	at = put_text(path, "/proc/");
	at = put_u32(at, (uint32_t)pid);
	at = put_text(at, "/fd/");
	at = put_u32(at, (uint32_t)fd);
	*at = 0;
	at = put_text(want, "socket:[");
	at = put_u32(at, inode);
	at = put_text(at, "]");

	n = rsk_sys_readlinkat(AT_FDCWD, path, have, sizeof(have));
	if (n != at - want || memcmp(have, want, (size_t)n) != 0)
		return -ESTALE;
	return 0;
}

int rsk_owner_is(const struct rsk_tuple *mine, uid_t uid, struct rsk_owner *out)
{
	struct rsk_tuple theirs = rsk_tuple_mirror(mine);
	struct rsk_owner self;
	int nl = netlink_open(mine);
	int err;

	if (nl < 0)
		return nl;
	err = lookup(nl, &theirs, out);
	/*
	 * "No such socket" and "no such module" look alike. My own end exists for certain: if it is
	 * not found either, the kernel cannot answer.
	 */
	if (err && err != -EOPNOTSUPP && lookup(nl, mine, &self))
		err = -EOPNOTSUPP;
	rsk_sys_close(nl);
	if (err)
		return err;
	return rsk_user_same(out->uid, uid) ? 0 : -EPERM;
}

int rsk_owner_verify(const struct rsk_tuple *mine, pid_t pid, int fd, uid_t uid,
		     struct rsk_owner *out)
{
	int err = rsk_owner_is(mine, uid, out);

	return err ? err : rsk_owner_holds(pid, fd, out->inode);
}
