/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook.h - the form of every hook, and helpers for all hook_*.c.
 *
 *	static rsk_noinline ssize_t rsk_tracked_read(int fd, void *buf, size_t len)
 *	{
 *		struct iovec iov = { buf, len };
 *
 *		RSK_SCOPE(s);
 *		if (!rsk_scope_recv(&s, fd, &iov, 1, 0))
 *			s.ret = rsk_real.read(fd, buf, len);
 *		return s.ret;
 *	}
 *
 *	ssize_t rsk_hook_read(int fd, void *buf, size_t len)
 *	{
 *		return rsk_tracked(fd) ? rsk_tracked_read(fd, buf, len) :
 *			rsk_real.read(fd, buf, len);
 *	}
 *
 * A call that is not for the engine leaves the hook by a jump: the hook itself needs no frame,
 * since the part that does is a separate function. The scope ends its operation however the hook is
 * left: by return, or by a thread's cancellation inside the real call or the engine's wait (all of
 * preload/ and stream/ is compiled with -fexceptions).
 */
#ifndef RSK_HOOK_H
#define RSK_HOOK_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

#include <rsock/reason.h>

#include "boot.h"
#include "engine.h"
#include "process.h"
#include "real.h"
#include "touch.h"

#define rsk_unlikely(x) __builtin_expect(!!(x), 0)

/*
 * The part of a hook that works on a stream. It is a separate function, so that other calls do not
 * build its frame.
 */
#define rsk_noinline __attribute__((noinline))

/* The kernel's UIO_MAXIOV. */
#define RSK_IOV_MAX 1024

/* A real call that may make a tracked fd ready: counts it in rsk_kernel_calls. */
#define rsk_counted(call) (rsk_count_kernel_call(), (call))

/* Whether @fd is a tracked fd: a stream or an epoll set. An untracked fd costs one load. */
static inline bool rsk_tracked(int fd)
{
	return rsk_unlikely((rsk_fd_word(fd) & RSK_FD_MASK) == RSK_FD_TRACKED) && !rsk_direct;
}

/* Whether @fd is an epoll set that may hold a paired stream. */
static inline bool rsk_tracked_epoll(int fd)
{
	return rsk_unlikely((rsk_fd_word(fd) & RSK_FD_MASK) == (RSK_FD_TRACKED | RSK_FD_EPOLL)) &&
	       !rsk_direct && !rsk_kernel_only();
}

/* The table has an entry for @fd, tracked or not. */
static inline bool rsk_known(int fd)
{
	return rsk_unlikely(rsk_fd_word(fd) != 0) && !rsk_direct;
}

/* The engine runs, and this is not a vfork child: its tables may be changed. */
static inline bool rsk_live(void)
{
	return rsk_booted && !rsk_direct;
}

/* The same, for a call that has made a descriptor which the engine has to know. */
static inline bool rsk_begins(void)
{
	return !rsk_direct && (__builtin_expect(rsk_booted, 1) || rsk_boot_late());
}

/* Converts the engine's 0, count or -errno to libc's convention: sets errno, and returns -1. */
static inline ssize_t rsk_result(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/* An operation and its result; owned by the hook's frame. */
struct rsk_scope {
	struct rsk_op op;
	ssize_t ret;
	/* Done on the fast path; there is no operation to end. */
	bool fast;
};

static inline void rsk_scope_end(struct rsk_scope *s)
{
	if (!s->fast)
		rsk_op_end(&s->op, s->ret);
}

#define RSK_SCOPE(name)                                                                            \
	struct rsk_scope name __attribute__((cleanup(rsk_scope_end))) = { .ret = -1 }

/*
 * A library that ours uses, libibverbs, makes the call on one of our descriptors: for the kernel,
 * and there is no operation.
 */
static inline bool rsk_scope_is_inside(struct rsk_scope *s, int fd)
{
	s->fast = rsk_fd_ours(fd) && rsk_sigdefer_depth;
	return s->fast;
}

/*
 * rsk_scope_recv, rsk_scope_send - pass the call to the engine. True: done, s->ret is what the hook
 * returns (errno set). False: the kernel has to do it, put the real call's result into s->ret.
 * Flags and vectors must be checked before (rsk_iov_valid(), rsk_recv_is_real() ...).
 */
static inline bool rsk_scope_recv(struct rsk_scope *s, int fd, const struct iovec *iov, int n,
				  int flags)
{
	bool kernel;
	ssize_t ret = rsk_fast_path_recv(fd, iov, n, flags);

	if (__builtin_expect(ret > RSK_SLOW_PATH, 1)) {
		s->fast = true;
		s->ret = rsk_result(ret);
		return true;
	}
	if (rsk_scope_is_inside(s, fd) || (n && rsk_touch_never(iov->iov_base)))
		return false;
	kernel = rsk_op_begin(&s->op, fd, RSK_OP_RECV) == RSK_KERNEL;
	s->op.peek = !!(flags & MSG_PEEK);
	s->op.nothing_here = ret == RSK_NOTHING_HERE;
	if (kernel)
		return false;
	ret = rsk_op_recv(&s->op, iov, n, flags);
	if (ret == -RSK_EKERNEL)
		return false;
	s->ret = rsk_result(ret);
	return true;
}

static inline bool rsk_scope_send(struct rsk_scope *s, int fd, const struct iovec *iov, int n,
				  int flags)
{
	ssize_t ret = rsk_fast_path_send(fd, iov, n, flags);
	bool kernel;

	if (__builtin_expect(ret > RSK_SLOW_PATH, 1)) {
		s->fast = true;
		s->ret = rsk_result(ret);
		return true;
	}
	if (rsk_scope_is_inside(s, fd) || (n && rsk_touch_never(iov->iov_base)))
		return false;
	kernel = rsk_op_begin(&s->op, fd, RSK_OP_SEND) == RSK_KERNEL;
	s->op.zerocopy = !!(flags & MSG_ZEROCOPY);
	if (kernel && !rsk_op_chunked(&s->op, iov, n, flags))
		return false;
	ret = rsk_op_send(&s->op, iov, n, flags);
	if (ret == -RSK_EKERNEL)
		return false;
	s->ret = rsk_result(ret);
	return true;
}

/*
 * hook_misc.c: rsk_reads() before a fault would be caught (rsk_touch_ready). It makes system calls:
 * frequent calls check nothing then, and go straight to the kernel, since there is no stream.
 */
bool rsk_kernel_reads(const void *p, size_t len);

/*
 * Whether @len bytes at @p can be read, or written. The kernel returns EFAULT for any address that
 * is not mapped; so does the library (touch.h). NULL and similar values are frequent, and cost no
 * fault. rsk_writes(): only once there is a stream.
 */
static inline bool rsk_reads(const void *p, size_t len)
{
	if ((uintptr_t)p < 4096)
		return false;
	return __builtin_expect(rsk_touch_ready, 1) ? rsk_touch_reads(p, len) :
						      rsk_kernel_reads(p, len);
}

static inline bool rsk_writes(void *p, size_t len)
{
	return (uintptr_t)p >= 4096 && rsk_touch_writes(p, len);
}

#define rsk_readable(p) rsk_reads((p), sizeof(*(p)))
#define rsk_writable(p) rsk_writes((p), sizeof(*(p)))

/*
 * Whether the kernel would accept this vector. If not, the hook makes the real call for the exact
 * error: the kernel checks the vector before it touches a byte of the stream. rsk_iov_bytes: its
 * sum; only for a valid vector.
 */
static inline bool rsk_iov_valid(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	if (n > RSK_IOV_MAX || (n && !rsk_reads(iov, n * sizeof(*iov))))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > (size_t)SSIZE_MAX - sum || rsk_touch_never(iov[i].iov_base))
			return false;
		sum += iov[i].iov_len;
	}
	return true;
}

static inline size_t rsk_iov_bytes(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

/* Relative timeouts. rsk_ms_timespec(): NULL means for ever. */
static inline const struct timespec *rsk_ms_timespec(int ms, struct timespec *ts)
{
	if (ms < 0)
		return NULL;
	ts->tv_sec = ms / 1000;
	ts->tv_nsec = ms % 1000 * 1000000L;
	return ts;
}

static inline bool rsk_timespec_valid(const struct timespec *ts)
{
	return !ts || (rsk_reads(ts, sizeof(*ts)) && ts->tv_sec >= 0 && ts->tv_nsec >= 0 &&
		       ts->tv_nsec < 1000000000L);
}

/* The kernel checks the mask first. */
static inline bool rsk_mask_valid(const sigset_t *mask)
{
	return !mask || rsk_reads(mask, RSK_SYS_SIGSET_BYTES);
}

/*
 * Called by glibc's fortified functions when the buffer is too small; exported by libc, declared in
 * no header.
 */
extern void __chk_fail(void) __attribute__((noreturn));

static inline void rsk_chk_room(size_t len, size_t room)
{
	if (len > room)
		__chk_fail();
}

/*
 * hook_fd.c: records a new number for an existing description, after the real call. Streams on 0 to
 * 2 fall back.
 */
void rsk_after_dup(int oldfd, int newfd);

/*
 * The kernel returned @fd (< 0: it failed): an existing table entry is of a descriptor whose close
 * no hook saw, and is removed.
 */
static inline int rsk_made(int fd)
{
	if (fd >= 0 && rsk_known(fd) && rsk_booted)
		rsk_fd_new(fd);
	return fd;
}

/* hook_open.c: the same. */
FILE *rsk_made_file(FILE *file);

/* hook_wait.c: whether the set contains a tracked fd, and the kernel would not refuse it. */
bool rsk_poll_is_ours(const struct pollfd *fds, nfds_t n);
bool rsk_select_is_ours(int n, fd_set *r, fd_set *w, fd_set *e);

/* The number of descriptors that a select() of @n has to check. */
static inline int rsk_select_n(int n)
{
	return rsk_unlikely(n > FD_SETSIZE) ? rsk_select_most(n) : n;
}

/* hook_wait.c: does such a poll(), and sets errno. */
int rsk_poll_ours(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask);

/*
 * hook_msg.c: streams whose descriptors @msg, which is about to be sent, carries fall back. 0 or
 * -EAGAIN.
 */
int rsk_rights_before_send(const struct msghdr *msg);

/*
 * hook_cmsg.c: recv(), recvfrom() and recvmsg() with MSG_ERRQUEUE. rsk_errqueue_is_ours: @flags
 * have it, and the library may have completions of @fd, or must renumber the kernel's.
 */
static inline bool rsk_errqueue_is_ours(int fd, int flags)
{
	return rsk_unlikely(flags & MSG_ERRQUEUE) && rsk_known(fd) && !rsk_fd_ours(fd);
}
ssize_t rsk_errqueue_recv(int fd, void *buf, size_t len, int flags);
ssize_t rsk_errqueue_recvmsg(int fd, struct msghdr *msg, int flags);

/* hook_uring.c: io_uring by syscall(), with its arguments. */
long rsk_uring_setup(const long a[static 6]);
long rsk_uring_enter(const long a[static 6]);
long rsk_uring_register(const long a[static 6]);

/*
 * hook_cmsg.c: writes what recvmsg() returns in @msg, but the control messages: no name, @flags;
 * *room: bytes for control messages. False: it cannot be written.
 */
bool rsk_msg_begin(struct msghdr *msg, int flags, size_t *room);

/*
 * hook_cmsg.c: TCP_INQ, timestamps. rsk_cmsg_ask - a socket was set to one of them.
 * rsk_cmsg_asked - whether any socket of this process ever was. rsk_cmsg_tell - writes the control
 * messages for @msg, with @room for them, after the engine has filled it with @got bytes (bytes of
 * a ring come with no others). errno is kept.
 */
void rsk_cmsg_ask(void);
bool rsk_cmsg_asked(void);
void rsk_cmsg_tell(int fd, struct msghdr *msg, size_t room, ssize_t got, int flags);

/*
 * hook_misc.c: stops promotion, and makes all streams fall back. 0; -EAGAIN: the call must not be
 * made.
 */
int rsk_no_more(enum rsk_reason why);

/*
 * hook_misc.c: called before a seccomp filter is installed, or strict mode is begun (@filter NULL).
 * 0; -EAGAIN: the call must not be made.
 */
struct sock_fprog;
int rsk_seccomp_begins(const struct sock_fprog *filter);

/*
 * hook_exec.c: the environment of a program that begins under a filter that this process has set,
 * and that the library's calls would not pass (rsk_kernel_only()): the library does nothing there.
 * rsk_env_begin() returns @envp with that request in front, or @envp; rsk_env_end() releases it,
 * and returns @ret. More than a few entries use a mapping: exec is signal-safe, malloc is not.
 */
#define RSK_EXEC_ARGS 256
struct rsk_exec_env {
	char **map;
	size_t map_bytes;
	char *few[RSK_EXEC_ARGS];
};
char *const *rsk_env_begin(struct rsk_exec_env *e, char *const *envp);
int rsk_env_end(struct rsk_exec_env *e, int ret);

/* hook_fd.c: called before @fd is duplicated. 0, or -errno: it must not be. */
int rsk_before_dup(int fd);

/* hook_fd.c: makes every tracked stream of the process fall back. 0; -EAGAIN: one could not. */
int rsk_fall_back_all(enum rsk_reason why);

#endif
