/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_msg.c - hooks of recv() and send() and their message variants; fds that arrive and leave in
 * messages.
 */
#include <string.h>
#include <time.h>

#define RSK_EXPORT_msg 1
#include "export.h"
#include "hook.h"

/*
 * Kept for 32-bit programs on a 64-bit kernel; otherwise it returns EINVAL, where the kernel
 * checks.
 */
#define RSK_MSG_CMSG_COMPAT 0x80000000u

/*
 * True: a ring does not carry it, and the hook makes the real call. Urgent bytes and error messages
 * are on the TCP socket; the rest of the stream stays where it is.
 */
static bool rsk_recv_is_real(int flags)
{
	return flags & (MSG_OOB | MSG_ERRQUEUE);
}

static bool rsk_may_block(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !(rsk_sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK);
}

/*
 * The kernel has to send: urgent data, kernel zero copy and control messages make the sender fall
 * back to TCP for good. Bytes that it still has to repeat there go first. 1; -errno.
 */
static __attribute__((noinline)) int rsk_send_falls_back(int fd, int flags, enum rsk_reason why)
{
	int rc;

	if (flags & MSG_ZEROCOPY)
		rsk_fd_zerocopy_by_tcp(fd);
	rsk_fd_fall_back(fd, why);
	do
		rc = rsk_fd_fall_back_tx(fd, why);
	while (rc == -EAGAIN && rsk_may_block(fd, flags));
	return rc < 0 ? rc : 1;
}

/* 1: the kernel has to send; 0: it need not; -errno. */
static inline int rsk_send_is_real(int fd, int flags)
{
	if (!rsk_unlikely(flags & (MSG_OOB | MSG_FASTOPEN)))
		return 0;
	return rsk_send_falls_back(fd, flags,
				   flags & MSG_OOB ? RSK_REASON_OOB : RSK_REASON_FASTOPEN);
}

/* ---- fds in control messages ---- */

#ifndef SCM_PIDFD
#define SCM_PIDFD 4 /* Linux 6.5: one descriptor, made for the receiver */
#endif

/*
 * Calls @each for every fd in @msg's SCM_RIGHTS, until it returns a negative value, and returns
 * that; @msg is the application's and may be malformed. Its control messages are readable.
 */
static int rsk_rights_each(const struct msghdr *msg, int (*each)(int fd))
{
	struct msghdr m = { .msg_control = msg->msg_control,
			    .msg_controllen = msg->msg_controllen };
	struct cmsghdr *c;
	size_t at, end;
	int fd, rc;

	if (m.msg_controllen < sizeof(*c))
		return 0;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_len < sizeof(*c))
			return 0;
		if (c->cmsg_level != SOL_SOCKET ||
		    (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD))
			continue;
		end = (size_t)((char *)c - (char *)m.msg_control) + c->cmsg_len;
		if (end > m.msg_controllen)
			return 0;
		at = (size_t)((char *)CMSG_DATA(c) - (char *)m.msg_control);
		for (; at + sizeof(fd) <= end; at += sizeof(fd)) {
			memcpy(&fd, (char *)m.msg_control + at, sizeof(fd));
			rc = each(fd);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int rsk_rights_sent(int fd)
{
	return rsk_fd_fall_back(fd, RSK_REASON_PASSED);
}

static int rsk_rights_arrived(int fd)
{
	rsk_fd_new(fd);
	rsk_fd_refuse(fd, RSK_REASON_PASSED); /* a new stream: nothing is in a ring */
	return 0;
}

/* Only a stream falls back; before there is one nothing is checked. */
int rsk_rights_before_send(const struct msghdr *msg)
{
	if (rsk_touch_ready && rsk_readable(msg) && rsk_unlikely(msg->msg_controllen != 0) &&
	    rsk_live() && rsk_reads(msg->msg_control, msg->msg_controllen))
		return rsk_rights_each(msg, rsk_rights_sent);
	return 0;
}

/* The kernel has just written it. */
static void rsk_rights_after_recv(const struct msghdr *msg)
{
	if (rsk_unlikely(msg->msg_controllen != 0) && rsk_live())
		rsk_rights_each(msg, rsk_rights_arrived);
}

/* ---- receive ---- */

static rsk_noinline ssize_t rsk_tracked_recv(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };

	RSK_SCOPE(s);
	if (!rsk_scope_recv(&s, fd, &iov, 1, flags))
		s.ret = rsk_real.recv(fd, buf, len, flags);
	return s.ret;
}

ssize_t rsk_hook_recv(int fd, void *buf, size_t len, int flags)
{
	if (!rsk_tracked(fd) || rsk_recv_is_real(flags))
		return rsk_errqueue_is_ours(fd, flags) ? rsk_errqueue_recv(fd, buf, len, flags) :
							 rsk_real.recv(fd, buf, len, flags);
	return rsk_tracked_recv(fd, buf, len, flags);
}

ssize_t rsk_hook___recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	rsk_chk_room(len, room);
	return rsk_hook_recv(fd, buf, len, flags);
}

/* As in the kernel, after the bytes are consumed: a TCP socket returns no address. */
static ssize_t rsk_no_name(ssize_t ret, const void *addr, socklen_t *addr_len)
{
	if (ret < 0 || !addr)
		return ret;
	if (!rsk_writable(addr_len))
		return rsk_result(-EFAULT);
	if ((int)*addr_len < 0)
		return rsk_result(-EINVAL);
	*addr_len = 0;
	return ret;
}

static rsk_noinline ssize_t rsk_tracked_recvfrom(int fd, void *buf, size_t len, int flags,
						 __SOCKADDR_ARG addr, socklen_t *addr_len)
{
	struct iovec iov = { buf, len };

	RSK_SCOPE(s);
	if (rsk_scope_recv(&s, fd, &iov, 1, flags))
		return rsk_no_name(s.ret, addr.__sockaddr__, addr_len);
	s.ret = rsk_real.recvfrom(fd, buf, len, flags, addr, addr_len);
	return s.ret;
}

static rsk_noinline ssize_t rsk_errqueue_recvfrom(int fd, void *buf, size_t len, int flags,
						  __SOCKADDR_ARG addr, socklen_t *addr_len)
{
	/* Of another socket, it may be an address. */
	if (!rsk_errqueue_is_ours(fd, flags))
		return rsk_real.recvfrom(fd, buf, len, flags, addr, addr_len);
	return rsk_no_name(rsk_errqueue_recv(fd, buf, len, flags), addr.__sockaddr__, addr_len);
}

ssize_t rsk_hook_recvfrom(int fd, void *buf, size_t len, int flags, __SOCKADDR_ARG addr,
			  socklen_t *addr_len)
{
	if (!rsk_tracked(fd) || rsk_recv_is_real(flags)) {
		if (rsk_unlikely(flags & MSG_ERRQUEUE))
			return rsk_errqueue_recvfrom(fd, buf, len, flags, addr, addr_len);
		return rsk_real.recvfrom(fd, buf, len, flags, addr, addr_len);
	}
	return rsk_tracked_recvfrom(fd, buf, len, flags, addr, addr_len);
}

ssize_t rsk_hook___recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags,
				__SOCKADDR_ARG addr, socklen_t *addr_len)
{
	rsk_chk_room(len, room);
	return rsk_hook_recvfrom(fd, buf, len, flags, addr, addr_len);
}

/* The kernel copies an address that is given, and ignores it. False: it cannot copy it. */
static bool rsk_name_valid(const void *name, socklen_t len)
{
	if (len > sizeof(struct sockaddr_storage))
		len = sizeof(struct sockaddr_storage);
	return !name || !len || rsk_reads(name, len);
}

/* False: the real call reports the error, before it touches the stream. */
static bool rsk_msg_valid(const struct msghdr *msg, int flags)
{
	return rsk_readable(msg) && !((unsigned int)flags & RSK_MSG_CMSG_COMPAT) &&
	       (!msg->msg_name || (int)msg->msg_namelen >= 0) &&
	       rsk_iov_valid(msg->msg_iov, msg->msg_iovlen);
}

static rsk_noinline ssize_t rsk_tracked_recvmsg(int fd, struct msghdr *msg, int flags, bool *filled)
{
	RSK_SCOPE(s);
	*filled = rsk_scope_recv(&s, fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
	if (!*filled)
		s.ret = rsk_real.recvmsg(fd, msg, flags);
	return s.ret;
}

ssize_t rsk_hook_recvmsg(int fd, struct msghdr *msg, int flags)
{
	size_t room;
	bool filled;
	ssize_t ret;

	if (!rsk_tracked(fd) || !rsk_msg_valid(msg, flags) || rsk_recv_is_real(flags)) {
		if (rsk_errqueue_is_ours(fd, flags))
			return rsk_errqueue_recvmsg(fd, msg, flags);
		ret = rsk_real.recvmsg(fd, msg, flags);
		if (ret >= 0)
			rsk_rights_after_recv(msg);
		return ret;
	}
	ret = rsk_tracked_recvmsg(fd, msg, flags, &filled);
	if (ret < 0 || !filled)
		return ret;
	/* As in the kernel: the bytes are consumed by now. */
	if (!rsk_msg_begin(msg, flags & MSG_CMSG_CLOEXEC, &room))
		return rsk_result(-EFAULT);
	/*
	 * A socket accepted from another program's listener may have TCP_INQ set without a call
	 * here.
	 */
	if (rsk_unlikely(room || rsk_cmsg_asked()))
		rsk_cmsg_tell(fd, msg, room, ret, flags);
	return ret;
}

/*
 * As the kernel: the timeout is checked after each message only, and holds the remaining time at
 * the end; MSG_WAITFORONE waits for the first message; an error after the first message ends the
 * call.
 */
int rsk_hook_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		      struct timespec *timeout)
{
	int64_t end_ns = 0, left_ns = 0;
	int saved = errno, pending;
	unsigned int done = 0;
	ssize_t ret;

	if (!(rsk_tracked(fd) || rsk_errqueue_is_ours(fd, flags)) || !rsk_readable(msgs) ||
	    ((unsigned int)flags & RSK_MSG_CMSG_COMPAT) || !rsk_timespec_valid(timeout) ||
	    (rsk_recv_is_real(flags) && !rsk_errqueue_is_ours(fd, flags))) {
		ret = rsk_real.recvmmsg(fd, msgs, n, flags, timeout);
		for (; (ssize_t)done < ret; done++)
			rsk_rights_after_recv(&msgs[done].msg_hdr);
		return (int)ret;
	}
	if (n > RSK_IOV_MAX)
		n = RSK_IOV_MAX;
	if (timeout &&
	    __builtin_add_overflow((int64_t)rsk_now_ns() + timeout->tv_nsec,
				   (int64_t)(timeout->tv_sec > INT32_MAX ? INT32_MAX :
									   timeout->tv_sec) *
					   1000000000LL,
				   &end_ns))
		end_ns = INT64_MAX;
	/* As do_recvmmsg(): a pending error is reported before data that is there. */
	pending = rsk_fd_pending_error(fd);
	if (pending)
		return (int)rsk_result(pending);
	while (done < n) {
		ret = rsk_hook_recvmsg(fd, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (ret >= 0 && !rsk_writable(&msgs[done].msg_len))
			ret = rsk_result(-EFAULT);
		if (ret < 0) {
			if (done == 0)
				return -1;
			rsk_fd_keep_error(fd, errno);
			errno = saved;
			break;
		}
		msgs[done++].msg_len = (unsigned int)ret;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (timeout) {
			left_ns = end_ns - (int64_t)rsk_now_ns();
			if (left_ns <= 0) {
				left_ns = 0;
				break;
			}
		}
	}
	if (timeout && done && !rsk_writable(timeout))
		return (int)rsk_result(-EFAULT);
	if (timeout && done) {
		timeout->tv_sec = left_ns / 1000000000LL;
		timeout->tv_nsec = left_ns % 1000000000LL;
	}
	return (int)done;
}

/* ---- send ---- */

static rsk_noinline ssize_t rsk_tracked_send(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { (void *)buf, len };
	int real = rsk_send_is_real(fd, flags);

	if (real)
		return real < 0 ? rsk_result(real) :
				  rsk_counted(rsk_real.send(fd, buf, len, flags));

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, &iov, 1, flags))
		s.ret = rsk_real.send(fd, buf, len, flags);
	return s.ret;
}

ssize_t rsk_hook_send(int fd, const void *buf, size_t len, int flags)
{
	return rsk_tracked(fd) ? rsk_tracked_send(fd, buf, len, flags) :
				 rsk_counted(rsk_real.send(fd, buf, len, flags));
}

static rsk_noinline ssize_t rsk_tracked_sendto(int fd, const void *buf, size_t len, int flags,
					       __CONST_SOCKADDR_ARG addr, socklen_t addr_len)
{
	struct iovec iov = { (void *)buf, len };
	int real = 1;

	/* A connected TCP socket ignores the address, but checks its length. */
	if (!(addr.__sockaddr__ && addr_len > sizeof(struct sockaddr_storage)) &&
	    rsk_name_valid(addr.__sockaddr__, addr_len))
		real = rsk_send_is_real(fd, flags);
	if (real)
		return real < 0 ? rsk_result(real) :
				  rsk_counted(rsk_real.sendto(fd, buf, len, flags, addr, addr_len));

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, &iov, 1, flags))
		s.ret = rsk_real.sendto(fd, buf, len, flags, addr, addr_len);
	return s.ret;
}

ssize_t rsk_hook_sendto(int fd, const void *buf, size_t len, int flags, __CONST_SOCKADDR_ARG addr,
			socklen_t addr_len)
{
	return rsk_tracked(fd) ? rsk_tracked_sendto(fd, buf, len, flags, addr, addr_len) :
				 rsk_counted(rsk_real.sendto(fd, buf, len, flags, addr, addr_len));
}

/* Longer control messages go to the kernel, which may find them too long (optmem_max). */
#define RSK_CONTROL_MOST 1024

/*
 * True: @msg's control messages are the kernel's: kTLS record types, transmit times, marks, which
 * it obeys or refuses. TCP ignores those of other levels than SOL_SOCKET (sock_cmsg_send()), IP_TOS
 * and IP_PKTINFO among them, but checks the lengths of all, as CMSG_OK() and __cmsg_nxthdr() do.
 */
static rsk_noinline bool rsk_control_counts(const struct msghdr *msg)
{
	size_t at = 0, left = msg->msg_controllen;
	struct cmsghdr c;

	if (left > RSK_CONTROL_MOST || !rsk_reads(msg->msg_control, left))
		return true;
	while (left - at >= sizeof(c)) {
		memcpy(&c, (char *)msg->msg_control + at, sizeof(c));
		if (c.cmsg_level == SOL_SOCKET || c.cmsg_level == SOL_TLS ||
		    c.cmsg_len < sizeof(c) || c.cmsg_len > left - at)
			return true;
		at += CMSG_ALIGN(c.cmsg_len);
		if (at > left)
			break;
	}
	return false;
}

static rsk_noinline ssize_t rsk_tracked_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	int real = 1;

	if (rsk_msg_valid(msg, flags) && rsk_name_valid(msg->msg_name, msg->msg_namelen)) {
		real = rsk_send_is_real(fd, flags);
		if (!real && msg->msg_controllen && rsk_control_counts(msg))
			real = rsk_send_falls_back(fd, flags, RSK_REASON_MESSAGES);
	}
	if (real)
		return real < 0 ? rsk_result(real) : rsk_counted(rsk_real.sendmsg(fd, msg, flags));

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, msg->msg_iov, (int)msg->msg_iovlen, flags))
		s.ret = rsk_real.sendmsg(fd, msg, flags);
	return s.ret;
}

ssize_t rsk_hook_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	int rc = rsk_rights_before_send(msg);

	if (rc < 0)
		return rsk_result(rc);
	return rsk_tracked(fd) ? rsk_tracked_sendmsg(fd, msg, flags) :
				 rsk_counted(rsk_real.sendmsg(fd, msg, flags));
}

/* An error after the first message ends the call; so does a message that was sent in part. */
int rsk_hook_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	unsigned int done = 0;
	int saved = errno;
	ssize_t ret;

	if (!rsk_tracked(fd) || !rsk_readable(msgs) ||
	    ((unsigned int)flags & RSK_MSG_CMSG_COMPAT)) {
		for (;
		     rsk_touch_ready && done < n && done < RSK_IOV_MAX && rsk_readable(&msgs[done]);
		     done++) {
			int rc = rsk_rights_before_send(&msgs[done].msg_hdr);

			if (rc < 0 && !done)
				return (int)rsk_result(rc);
			if (rc < 0)
				n = done;
		}
		return rsk_counted(rsk_real.sendmmsg(fd, msgs, n, flags));
	}
	if (n > RSK_IOV_MAX)
		n = RSK_IOV_MAX;
	while (done < n) {
		struct msghdr *msg = &msgs[done].msg_hdr;

		ret = rsk_hook_sendmsg(fd, msg, flags);
		if (ret >= 0 && !rsk_writable(&msgs[done].msg_len))
			ret = rsk_result(-EFAULT);
		if (ret < 0) {
			if (done == 0)
				return -1;
			errno = saved;
			break;
		}
		msgs[done++].msg_len = (unsigned int)ret;
		if ((size_t)ret < rsk_iov_bytes(msg->msg_iov, msg->msg_iovlen))
			break;
	}
	return (int)done;
}
