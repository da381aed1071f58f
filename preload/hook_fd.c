/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_fd.c - hooks of close() and dup() and their variants, which go around the library's own fds,
 * and of calls that make two descriptors.
 */
#include <linux/close_range.h>
#include <sys/resource.h>

#define RSK_EXPORT_fd 1
#include "export.h"
#include "hook.h"

void rsk_after_dup(int oldfd, int newfd)
{
	if (rsk_direct || !(rsk_fd_word(oldfd) | rsk_fd_word(newfd)))
		return;
	rsk_fd_dup(oldfd, newfd);
	if (newfd <= STDERR_FILENO)
		rsk_fd_fall_back(newfd, RSK_REASON_STDIO);
}

int rsk_fall_back_all(enum rsk_reason why)
{
	int fd, rc = 0;

	for (fd = rsk_fd_next(0); fd >= 0; fd = rsk_fd_next(fd + 1))
		if (!rsk_fd_ours(fd) && rsk_fd_fall_back(fd, why) < 0)
			rc = -EAGAIN;
	return rc;
}

/* The application must not use the library's own fds: they get EBADF. */
static inline bool rsk_not_yours(int fd)
{
	return rsk_live() && rsk_fd_not_yours(fd);
}

int rsk_hook_close(int fd)
{
	if (rsk_live() && rsk_fd_closing(fd) < 0)
		return (int)rsk_result(-EBADF);
	return rsk_counted(rsk_real.close(fd));
}

/* Ends the streams in [first, last], and closes the range except the library's own fds. */
static int rsk_close_around(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;
	int fd, ret = 0;

	for (fd = rsk_fd_next((int)first); fd >= 0 && (unsigned int)fd <= last;
	     fd = rsk_fd_next(fd + 1)) {
		if (!rsk_fd_ours(fd)) {
			rsk_fd_closing(fd);
			continue;
		}
		if ((unsigned int)fd > from)
			ret = rsk_real.close_range(from, (unsigned int)fd - 1, flags);
		if (ret < 0)
			return ret;
		from = (unsigned int)fd + 1;
	}
	if (from > last)
		return ret;
	return rsk_real.close_range(from, last, flags);
}

int rsk_hook_close_range(unsigned int first, unsigned int last, int flags)
{
	/*
	 * A call that closes nothing, or does not exist in this kernel (tested with a range that
	 * contains no fd), goes to the kernel alone.
	 */
	if (!rsk_live() || first > last || first > INT32_MAX || (flags & ~CLOSE_RANGE_UNSHARE) ||
	    rsk_real.close_range(~0U, ~0U, 0) < 0)
		return rsk_real.close_range(first, last, flags);
	return rsk_close_around(first, last, flags);
}

void rsk_hook_closefrom(int first)
{
	int fd;

	if (!rsk_live()) {
		rsk_real.closefrom(first);
		return;
	}
	if (first < 0)
		first = 0;
	if (rsk_hook_close_range((unsigned int)first, ~0U, 0) == 0)
		return;
	/* A kernel before 5.9: libc's way, around our fds. No fd lies above the table. */
	for (fd = first; (uint32_t)fd < rsk_fdtab.size; fd++)
		if (rsk_fd_closing(fd) == 0)
			rsk_sys_close(fd);
}

/*
 * A vfork child passes a stream to the program that it is about to execute, which sees the kernel
 * alone. Memory is the parent's, and descriptors have the same numbers. 0 or -errno.
 */
static int rsk_before_vforked_dup(int fd, enum rsk_reason why)
{
	return rsk_booted && rsk_direct ? rsk_fd_fall_back(fd, why) : 0;
}

int rsk_before_dup(int fd)
{
	return rsk_before_vforked_dup(fd, RSK_REASON_EXEC);
}

int rsk_hook_dup(int fd)
{
	int ret;

	if (rsk_not_yours(fd))
		return (int)rsk_result(-EBADF);
	ret = rsk_before_dup(fd);
	if (ret < 0)
		return (int)rsk_result(ret);
	ret = rsk_real.dup(fd);
	if (ret >= 0)
		rsk_after_dup(fd, ret);
	return ret;
}

/* If the limit was lowered, fds above it stay open, and no new one may be put there. */
static bool rsk_beyond_limit(int fd)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_NOFILE, &lim) == 0 && (rlim_t)fd >= lim.rlim_cur;
}

/*
 * Called before a dup onto @to closes it: everything that could make the real call fail is checked
 * first, since the close of a stream cannot be undone. Returns 0 or -errno.
 */
static int rsk_before_dup_onto(int fd, int to)
{
	int rc = rsk_before_vforked_dup(fd,
					to <= STDERR_FILENO ? RSK_REASON_STDIO : RSK_REASON_EXEC);

	if (rc < 0 || !rsk_live())
		return rc;
	if (rsk_fd_not_yours(fd) || rsk_fd_not_yours(to))
		return -EBADF;
	if (rsk_known(to) && (rsk_sys_fcntl(fd, F_GETFD, 0) < 0 || rsk_beyond_limit(to)))
		return -EBADF;
	/* While @to is still what it was. */
	rc = to <= STDERR_FILENO && rsk_tracked(fd) ? rsk_fd_fall_back(fd, RSK_REASON_STDIO) : 0;
	return rc < 0 ? -EBUSY : rsk_fd_closing(to);
}

int rsk_hook_dup2(int fd, int to)
{
	int ret;

	if (fd == to)
		return rsk_not_yours(fd) ? (int)rsk_result(-EBADF) : rsk_real.dup2(fd, to);
	ret = rsk_before_dup_onto(fd, to);
	if (ret < 0)
		return (int)rsk_result(ret);
	ret = rsk_real.dup2(fd, to);
	if (ret >= 0)
		rsk_after_dup(fd, to);
	return ret;
}

int rsk_hook_dup3(int fd, int to, int flags)
{
	int ret;

	if (fd == to || (flags & ~O_CLOEXEC))
		return rsk_real.dup3(fd, to, flags); /* EINVAL */
	ret = rsk_before_dup_onto(fd, to);
	if (ret < 0)
		return (int)rsk_result(ret);
	ret = rsk_real.dup3(fd, to, flags);
	if (ret >= 0)
		rsk_after_dup(fd, to);
	return ret;
}

/* ---- calls that make two descriptors ---- */

static int rsk_made_both(int ret, const int *fds)
{
	if (ret == 0) {
		rsk_made(fds[0]);
		rsk_made(fds[1]);
	}
	return ret;
}

int rsk_hook_pipe(int fds[2])
{
	return rsk_made_both(rsk_real.pipe(fds), fds);
}

int rsk_hook_pipe2(int fds[2], int flags)
{
	return rsk_made_both(rsk_real.pipe2(fds, flags), fds);
}

int rsk_hook_socketpair(int domain, int type, int protocol, int fds[2])
{
	return rsk_made_both(rsk_real.socketpair(domain, type, protocol, fds), fds);
}

int rsk_hook_openpty(int *master, int *slave, char *name, const struct termios *tio,
		     const struct winsize *size)
{
	int ret = rsk_real.openpty(master, slave, name, tio, size);

	if (ret == 0) {
		rsk_made(*master);
		rsk_made(*slave);
	}
	return ret;
}

/* @second: where the descriptor for errors is stored; NULL: none is wanted. */
static int rsk_made_remote(int fd, const int *second)
{
	if (fd >= 0 && second)
		rsk_made(*second);
	return rsk_made(fd);
}

int rsk_hook_rcmd(char **host, unsigned short port, const char *user, const char *remote_user,
		  const char *command, int *second)
{
	return rsk_made_remote(rsk_real.rcmd(host, port, user, remote_user, command, second),
			       second);
}

int rsk_hook_rcmd_af(char **host, unsigned short port, const char *user, const char *remote_user,
		     const char *command, int *second, sa_family_t family)
{
	return rsk_made_remote(rsk_real.rcmd_af(host, port, user, remote_user, command, second,
						family),
			       second);
}

int rsk_hook_rexec(char **host, int port, const char *user, const char *password,
		   const char *command, int *second)
{
	return rsk_made_remote(rsk_real.rexec(host, port, user, password, command, second), second);
}

int rsk_hook_rexec_af(char **host, int port, const char *user, const char *password,
		      const char *command, int *second, sa_family_t family)
{
	return rsk_made_remote(rsk_real.rexec_af(host, port, user, password, command, second,
						 family),
			       second);
}
