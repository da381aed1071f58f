/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_cmsg.c - control messages that recvmsg() gets from the library: timestamps; TCP_INQ, the
 * number of bytes left; and with MSG_ERRQUEUE, behind the kernel's queue, the completions of
 * MSG_ZEROCOPY sends that the library made. hook_msg.c and hook_sock.c call it.
 */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h>

#include "hook.h"
#include "real.h"

/* The hooks of the other families. */
#define RSK_EXIT(name, params, args, family, raw, note)
#define RSK_SYM(ret, name, params, args, family, raw, note) ret rsk_hook_##name params;
#include "symbols.def"

bool rsk_msg_begin(struct msghdr *msg, int flags, size_t *room)
{
	if (!rsk_writable(msg))
		return false;
	*room = msg->msg_controllen;
	if (msg->msg_name)
		msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = flags;
	return true;
}

/*
 * As the kernel's put_cmsg(), behind what is in msg_control already: msg_controllen bytes of @room,
 * which was the caller's msg_controllen.
 */
static void rsk_put_cmsg(struct msghdr *msg, size_t room, int level, int type, const void *data,
			 size_t len)
{
	struct cmsghdr head = { .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };
	size_t used = CMSG_SPACE(len), left = room - msg->msg_controllen;
	char *at = (char *)msg->msg_control + msg->msg_controllen;

	if (!msg->msg_control || left < head.cmsg_len)
		msg->msg_flags |= MSG_CTRUNC;
	if (!msg->msg_control || left < sizeof(head))
		return;
	if (left < head.cmsg_len)
		head.cmsg_len = left;
	if (!rsk_writes(at, head.cmsg_len))
		return;
	memcpy(at, &head, sizeof(head));
	memcpy(at + CMSG_LEN(0), data, head.cmsg_len - CMSG_LEN(0));
	msg->msg_controllen += left < used ? left : used;
}

/* ---- TCP_INQ ---- */

/*
 * Some socket of this process was set to TCP_INQ, or to a timestamp. Set by any thread, never
 * cleared; read relaxed at each call.
 */
static _Atomic(bool) rsk_asked;

void rsk_cmsg_ask(void)
{
	atomic_store_explicit(&rsk_asked, true, memory_order_relaxed);
}

bool rsk_cmsg_asked(void)
{
	return atomic_load_explicit(&rsk_asked, memory_order_relaxed);
}

/*
 * As the kernel's tcp_inq_hint(): the end counts as a byte, and continues to. False: TCP_INQ is not
 * set.
 */
static bool rsk_is_left(int fd, int *left)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	socklen_t len = sizeof(int);
	int on = 0;

	if (rsk_real.getsockopt(fd, SOL_TCP, TCP_INQ, &on, &len) < 0 || !on)
		return false;
	*left = 0;
	rsk_hook_ioctl(fd, SIOCINQ, left);
	if (rsk_hook_poll(&p, 1, 0) > 0 && (p.revents & POLLRDHUP))
		++*left;
	return true;
}

/* ---- timestamps ---- */

/* As tcp_recv_timestamp(). */
static void rsk_put_stamp(int fd, struct msghdr *msg, size_t room, int flags)
{
	struct timespec at[3] = { 0 }; /* struct scm_timestamping; also a timespec, a timeval */
	uint64_t ns = 0;
	int type = rsk_fd_stamp(fd, flags & MSG_PEEK, &ns);

	at->tv_sec = (time_t)(ns / 1000000000u);
	at->tv_nsec = (long)(ns % 1000000000u);
	switch (type) {
	case 0:
		break;
	case SO_TIMESTAMP:
	case SO_TIMESTAMP_NEW:
		at->tv_nsec /= 1000;
		__attribute__((fallthrough));
	case SO_TIMESTAMPNS:
	case SO_TIMESTAMPNS_NEW:
		rsk_put_cmsg(msg, room, SOL_SOCKET, type, at, sizeof(*at));
		break;
	default:
		rsk_put_cmsg(msg, room, SOL_SOCKET, type, at, sizeof(at));
	}
}

/* The bytes are consumed by now: a thread that is cancelled in here would lose them. */
void rsk_cmsg_tell(int fd, struct msghdr *msg, size_t room, ssize_t got, int flags)
{
	int left, saved = errno, state = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (got > 0)
		rsk_put_stamp(fd, msg, room, flags);
	if (rsk_is_left(fd, &left))
		rsk_put_cmsg(msg, room, SOL_TCP, TCP_CM_INQ, &left, sizeof(left));
	pthread_setcancelstate(state, NULL);
	errno = saved;
}

/* ---- MSG_ERRQUEUE ---- */

/* What IP_RECVERR, IPV6_RECVERR carry: the error, and who has sent it, which is nobody here. */
struct rsk_errqueue_entry {
	struct sock_extended_err err;
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} offender;
};

static bool rsk_is_recverr(const struct cmsghdr *c)
{
	return (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
	       (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
}

/* The kernel has just written @msg: its numbers become the program's. */
static void rsk_errqueue_renumber(int fd, struct msghdr *msg)
{
	struct sock_extended_err err;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t range[2];

		if (!rsk_is_recverr(c) || c->cmsg_len < CMSG_LEN(sizeof(err)))
			continue;
		memcpy(&err, CMSG_DATA(c), sizeof(err));
		if (err.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			continue;
		range[0] = err.ee_info;
		range[1] = err.ee_data;
		rsk_fd_renumber(fd, range);
		err.ee_info = range[0];
		err.ee_data = range[1];
		memcpy(CMSG_DATA(c), &err, sizeof(err));
	}
}

/* As ip_recv_error() and ipv6_recv_error(), by the socket's family. */
static void rsk_put_completion(int fd, struct msghdr *msg, size_t room,
			       const uint32_t range[static 2])
{
	struct rsk_errqueue_entry e = { .err = { .ee_origin = SO_EE_ORIGIN_ZEROCOPY,
						 .ee_code = SO_EE_CODE_ZEROCOPY_COPIED,
						 .ee_info = range[0],
						 .ee_data = range[1] } };
	socklen_t len = sizeof(int);
	int domain = AF_INET;

	rsk_sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	if (domain == AF_INET6)
		rsk_put_cmsg(msg, room, SOL_IPV6, IPV6_RECVERR, &e,
			     offsetof(struct rsk_errqueue_entry, offender) +
				     sizeof(e.offender.in6));
	else
		rsk_put_cmsg(msg, room, SOL_IP, IP_RECVERR, &e,
			     offsetof(struct rsk_errqueue_entry, offender) + sizeof(e.offender.in));
}

/* The kernel's queue was empty: EAGAIN. */
static bool rsk_errqueue_take(int fd, ssize_t ret, int saved, uint32_t range[static 2])
{
	if (ret >= 0 || errno != EAGAIN || !rsk_fd_completion(fd, range))
		return false;
	errno = saved;
	return true;
}

ssize_t rsk_errqueue_recv(int fd, void *buf, size_t len, int flags)
{
	int saved = errno;
	uint32_t range[2];
	ssize_t ret = rsk_real.recv(fd, buf, len, flags);

	return rsk_errqueue_take(fd, ret, saved, range) ? 0 : ret;
}

ssize_t rsk_errqueue_recvmsg(int fd, struct msghdr *msg, int flags)
{
	int saved = errno;
	uint32_t range[2];
	size_t room;
	ssize_t ret = rsk_real.recvmsg(fd, msg, flags);

	if (ret >= 0)
		rsk_errqueue_renumber(fd, msg);
	if (!rsk_errqueue_take(fd, ret, saved, range))
		return ret;
	/* As in the kernel: the entry is taken by now. */
	if (!rsk_msg_begin(msg, (flags & MSG_CMSG_CLOEXEC) | MSG_ERRQUEUE, &room))
		return rsk_result(-EFAULT);
	rsk_put_completion(fd, msg, room, range);
	return 0;
}
