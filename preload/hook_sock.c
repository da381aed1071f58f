/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_sock.c - hooks of calls that make, connect and shut down sockets, and of socket options,
 * including those that a ring cannot provide.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define RSK_EXPORT_sock 1
#include "export.h"
#include "hook.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5: the value is a new descriptor */
#endif

int rsk_hook_socket(int domain, int type, int protocol)
{
	int fd = rsk_real.socket(domain, type, protocol);
	bool tcp = (domain == AF_INET || domain == AF_INET6) &&
		   (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
		   (protocol == 0 || protocol == IPPROTO_TCP);

	if (fd >= 0 && (tcp ? rsk_begins() : rsk_live()))
		rsk_fd_socket(fd, tcp, type & SOCK_NONBLOCK);
	return fd;
}

int rsk_hook_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			 struct addrinfo **res)
{
	int ret = rsk_real.getaddrinfo(node, service, hints, res), saved = errno;
	struct sockaddr_storage unused;

	if (ret || !rsk_live() || !rsk_fd_may_resolve())
		return ret;
	for (const struct addrinfo *a = *res; a; a = a->ai_next)
		if (a->ai_socktype == SOCK_STREAM || a->ai_socktype == 0)
			rsk_fd_connecting(a->ai_addr, a->ai_addrlen, true, &unused);
	errno = saved;
	return ret;
}

int rsk_hook_listen(int fd, int backlog)
{
	int saved = errno, ret = rsk_real.listen(fd, backlog);

	if (ret == 0 && rsk_live()) {
		rsk_fd_listening(fd);
		errno = saved;
	}
	return ret;
}

/* @before: the listener's table word; @flags: SOCK_* as given to accept4(). */
static int rsk_after_accept(int fd, int listener, uintptr_t before, int flags)
{
	if (fd < 0 || !rsk_begins())
		return fd;
	/* O_NONBLOCK is not inherited. */
	rsk_fd_accepted(fd, flags & SOCK_NONBLOCK, listener, before);
	if (rsk_unlikely(fd <= STDERR_FILENO))
		rsk_fd_fall_back(fd, RSK_REASON_STDIO);
	return fd;
}

int rsk_hook_accept(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
	uintptr_t before = rsk_fd_word(fd);

	return rsk_after_accept(rsk_real.accept(fd, addr, len), fd, before, 0);
}

int rsk_hook_accept4(int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags)
{
	uintptr_t before = rsk_fd_word(fd);

	return rsk_after_accept(rsk_real.accept4(fd, addr, len, flags), fd, before, flags);
}

/*
 * Connects to the redirect address if policy gives one; otherwise, and if that does not accept the
 * connection at once, to @sa.
 */
static rsk_noinline int rsk_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_storage redirect;
	int ret;

	if (!rsk_fd_connecting(sa, len, false, &redirect))
		return rsk_real.connect(fd, sa, len);
	ret = rsk_real.connect(fd, (const struct sockaddr *)&redirect, len);
	if (ret == 0 || errno == EINPROGRESS || errno == EINTR || errno == EALREADY ||
	    errno == EISCONN)
		return ret;
	return rsk_real.connect(fd, sa, len);
}

int rsk_hook_connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	const struct sockaddr *sa = addr.__sockaddr__;
	int saved = errno, ret;

	/* AF_UNSPEC dissolves the connection; a later one is another stream. */
	if (rsk_known(fd) && len >= sizeof(sa->sa_family) &&
	    len <= sizeof(struct sockaddr_storage) && rsk_reads(sa, len) &&
	    sa->sa_family == AF_UNSPEC) {
		if (rsk_fd_closing(fd) < 0)
			return (int)rsk_result(-EBADF);
		return rsk_counted(rsk_real.connect(fd, addr, len));
	}
	if (rsk_known(fd) && rsk_fd_may_resolve() && len &&
	    len <= sizeof(struct sockaddr_storage) && rsk_reads(sa, len))
		ret = rsk_counted(rsk_connect(fd, sa, len));
	else
		ret = rsk_counted(rsk_real.connect(fd, addr, len));
	/* EINTR: the kernel continues to connect. */
	if ((ret == 0 || errno == EINPROGRESS || errno == EINTR) && rsk_live()) {
		int err = errno;

		rsk_fd_connected(fd, sa, len);
		if (rsk_unlikely(fd <= STDERR_FILENO))
			rsk_fd_fall_back(fd, RSK_REASON_STDIO);
		errno = ret == 0 ? saved : err;
	}
	return ret;
}

int rsk_hook_shutdown(int fd, int how)
{
	if (!rsk_tracked(fd) || how < SHUT_RD || how > SHUT_RDWR)
		return rsk_counted(rsk_real.shutdown(fd, how));

	RSK_SCOPE(s);
	if (rsk_op_begin(&s.op, fd, RSK_OP_CTL) == RSK_ENGINE)
		s.ret = rsk_result(rsk_op_shutdown(&s.op, how));
	else
		s.ret = rsk_real.shutdown(fd, how);
	return (int)s.ret;
}

/* ---- options ---- */

/* Options that make a stream fall back, and the reason; when: only for a value that is not 0. */
#define RSK_OPT_FALLS_BACK(X)                                                                      \
	X(SOL_TCP, TCP_ULP, false, KTLS)                                                           \
	X(SOL_TCP, TCP_REPAIR, true, UNSUPPORTED)                                                  \
	X(SOL_TCP, TCP_FASTOPEN_CONNECT, true, FASTOPEN)                                           \
	X(SOL_SOCKET, SO_PEEK_OFF, false, UNSUPPORTED)

#define RSK_OPT(level, name) ((uint64_t)(uint32_t)(level) << 32 | (uint32_t)(name))

static int rsk_opt_falls_back(int fd, bool when, enum rsk_reason why, const void *val,
			      socklen_t len)
{
	if (when && len >= sizeof(int) && rsk_readable((const int *)val) && *(const int *)val == 0)
		return 0;
	return rsk_fd_refuse(fd, why);
}

static bool rsk_is_stamp(int name)
{
	return name == SO_TIMESTAMP || name == SO_TIMESTAMPNS || name == SO_TIMESTAMPING ||
	       name == SO_TIMESTAMP_NEW || name == SO_TIMESTAMPNS_NEW ||
	       name == SO_TIMESTAMPING_NEW;
}

/* Sets an option of the table, or one whose value is recorded once it is set. */
static rsk_noinline int rsk_known_setsockopt(int fd, int level, int name, const void *val,
					     socklen_t len)
{
	int ret = 0;

#define X(opt_level, opt_name, opt_when, opt_why)                                                  \
	case RSK_OPT(opt_level, opt_name):                                                         \
		ret = rsk_opt_falls_back(fd, opt_when, RSK_REASON_##opt_why, val, len);            \
		break;
	switch (RSK_OPT(level, name)) {
		RSK_OPT_FALLS_BACK(X)
	default:
		break;
	}
#undef X
	if (ret < 0)
		return (int)rsk_result(ret);
	ret = rsk_real.setsockopt(fd, level, name, val, len);
	if (ret == 0 && level == SOL_TCP && name == TCP_SAVE_SYN)
		rsk_syn_is_the_programs();
	if (ret == 0 && level == SOL_TCP && name == TCP_INQ && *(const int *)val)
		rsk_cmsg_ask();
	if (ret == 0 && level == SOL_SOCKET && rsk_is_stamp(name)) {
		rsk_cmsg_ask();
		rsk_fd_stamps_set(fd);
	}
	if (ret == 0 && level == SOL_SOCKET && name == SO_RCVLOWAT && rsk_known(fd))
		rsk_fd_set_rcvlowat(fd, *(const int *)val);
	if (ret == 0 && level == SOL_SOCKET && rsk_known(fd)) {
		if (name == SO_LINGER)
			rsk_fd_set_linger(fd);
		if (name == SO_RCVTIMEO || name == SO_RCVTIMEO_NEW)
			rsk_fd_set_patience(fd, true, *(const long *)val < 0);
		if (name == SO_SNDTIMEO || name == SO_SNDTIMEO_NEW)
			rsk_fd_set_patience(fd, false, *(const long *)val < 0);
	}
	return ret;
}

int rsk_hook_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	if (!rsk_live())
		return rsk_real.setsockopt(fd, level, name, val, len);
		/* Every setsockopt() call passes here: a switch instead of a table search. */
#define X(opt_level, opt_name, opt_when, opt_why) case RSK_OPT(opt_level, opt_name):
	switch (RSK_OPT(level, name)) {
		RSK_OPT_FALLS_BACK(X)
	case RSK_OPT(SOL_TCP, TCP_INQ):
	case RSK_OPT(SOL_TCP, TCP_SAVE_SYN):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMP):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMPNS):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMPING):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMP_NEW):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMPNS_NEW):
	case RSK_OPT(SOL_SOCKET, SO_TIMESTAMPING_NEW):
	case RSK_OPT(SOL_SOCKET, SO_LINGER):
	case RSK_OPT(SOL_SOCKET, SO_RCVLOWAT):
	case RSK_OPT(SOL_SOCKET, SO_RCVTIMEO):
	case RSK_OPT(SOL_SOCKET, SO_SNDTIMEO):
	case RSK_OPT(SOL_SOCKET, SO_RCVTIMEO_NEW):
	case RSK_OPT(SOL_SOCKET, SO_SNDTIMEO_NEW):
		return rsk_known_setsockopt(fd, level, name, val, len);
	default:
		return rsk_real.setsockopt(fd, level, name, val, len);
	}
#undef X
}

/* The error is reported, and cleared, even if only part of it was asked for. */
static void rsk_so_error(struct rsk_op *op, void *val, socklen_t len)
{
	int err = 0;

	if (len > sizeof(err))
		len = sizeof(err);
	if (len)
		memcpy(&err, val, len);
	rsk_op_so_error(op, &err);
	if (len)
		memcpy(val, &err, len);
}

/* What the library has made the kernel keep is not there for the program. */
static int rsk_hide_syn(int fd, int name, void *val, socklen_t *len)
{
	socklen_t n = sizeof(int);
	int is, ret;

	if (name == TCP_SAVE_SYN) {
		ret = rsk_real.getsockopt(fd, SOL_TCP, name, val, len);
		if (ret == 0)
			memset(val, 0, *len);
		return ret;
	}
	/* Reading it would take it. The same errors, then: nothing was saved. */
	ret = rsk_real.getsockopt(fd, SOL_TCP, TCP_SAVE_SYN, &is, &n);
	if (ret < 0 || !rsk_writable(len) || (int)*len < 0)
		return ret < 0 ? ret : rsk_real.getsockopt(fd, SOL_TCP, name, val, len);
	*len = 0;
	return 0;
}

int rsk_hook_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	bool error = level == SOL_SOCKET && name == SO_ERROR;

	if (level == SOL_TCP && (name == TCP_SAVE_SYN || name == TCP_SAVED_SYN) && rsk_live() &&
	    rsk_syn_hidden())
		return rsk_hide_syn(fd, name, val, len);

	if ((level != SOL_TCP && !error) || !rsk_tracked(fd)) {
		int ret = rsk_real.getsockopt(fd, level, name, val, len);

		if (ret == 0 && level == SOL_SOCKET && name == SO_PEERPIDFD)
			rsk_made(*(const int *)val);
		if (ret == 0 && level == SOL_SOCKET && name == SO_LINGER && rsk_tracked(fd))
			rsk_fd_get_linger(fd, val, *len);
		return ret;
	}
	if (level == SOL_TCP && name == TCP_ZEROCOPY_RECEIVE &&
	    rsk_fd_fall_back_now(fd, RSK_REASON_ZEROCOPY) < 0)
		return (int)rsk_result(-EAGAIN);
	if (!error && name != TCP_INFO)
		return rsk_real.getsockopt(fd, level, name, val, len);

	RSK_SCOPE(s);
	bool engine = rsk_op_begin(&s.op, fd, RSK_OP_CTL) == RSK_ENGINE;

	s.ret = rsk_real.getsockopt(fd, level, name, val, len);
	if (s.ret == 0 && engine && error)
		rsk_so_error(&s.op, val, *len);
	else if (s.ret == 0 && engine && !error)
		rsk_op_tcp_info(&s.op, val, *len);
	return (int)s.ret;
}
