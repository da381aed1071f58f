/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sys.h - system calls without libc in between, for the engine and the other parts of the library.
 *
 * The engine must not call a libc function that the library itself hooks, must not touch errno,
 * must not be a cancellation point, and must work before libc is ready, in signal handlers and in
 * vfork children. So each call here is one `syscall` (x86-64) or `svc` (aarch64) instruction that
 * returns a count, 0 or -errno. All are async-signal-safe; those that block according to the man
 * pages block here too.
 *
 * Structures are libc's: on both machines they have the kernel's layout (stat, msghdr, iovec,
 * epoll_event, timespec). One difference is handled here: a kernel sigset has 8 bytes, libc's 128,
 * and only the first 8 are passed. ppoll writes the remaining time into its timespec, as the kernel
 * does and libc does not, so callers pass a copy.
 */
#ifndef RSOCK_SYS_H
#define RSOCK_SYS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* The size of the kernel's sigset_t. */
#define RSK_SYS_SIGSET_BYTES 8

#if defined(__clang_analyzer__)

/*
 * The analyzer does not see what inline assembly writes to; an unknown function may write anything.
 */
long rsk_sys6(long nr, long a, long b, long c, long d, long e, long f);
long rsk_sys3(long nr, long a, long b, long c);

#elif defined(__x86_64__)

static inline long rsk_sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long rsk_sys3(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

static inline long rsk_sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long rsk_sys3(long nr, long a, long b, long c)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

#else
#error "librsock knows the system call instruction of x86-64 and aarch64 only"
#endif

#define RSK_SYS0(nr) rsk_sys3((nr), 0, 0, 0)
#define RSK_SYS1(nr, a) rsk_sys3((nr), (long)(a), 0, 0)
#define RSK_SYS2(nr, a, b) rsk_sys3((nr), (long)(a), (long)(b), 0)
#define RSK_SYS3(nr, a, b, c) rsk_sys3((nr), (long)(a), (long)(b), (long)(c))
#define RSK_SYS4(nr, a, b, c, d) rsk_sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define RSK_SYS5(nr, a, b, c, d, e)                                                                \
	rsk_sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define RSK_SYS6(nr, a, b, c, d, e, f)                                                             \
	rsk_sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* A mapping's address is an errno exactly if it is in the last page. */
static inline int rsk_sys_is_err(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-4095;
}

static inline int rsk_sys_ptr_err(const void *p)
{
	return (int)(intptr_t)p;
}

/* --- files ------------------------------------------------------------------------------- */

static inline ssize_t rsk_sys_read(int fd, void *buf, size_t len)
{
	return RSK_SYS3(SYS_read, fd, buf, len);
}

static inline ssize_t rsk_sys_write(int fd, const void *buf, size_t len)
{
	return RSK_SYS3(SYS_write, fd, buf, len);
}

static inline ssize_t rsk_sys_pread(int fd, void *buf, size_t len, off_t at)
{
	return RSK_SYS4(SYS_pread64, fd, buf, len, at);
}

/* The kernel takes the offset in two halves; on 64-bit machines the high one is ignored. */
static inline ssize_t rsk_sys_preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return RSK_SYS6(SYS_preadv2, fd, iov, n, at, 0, flags);
}

static inline ssize_t rsk_sys_pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return RSK_SYS6(SYS_pwritev2, fd, iov, n, at, 0, flags);
}

static inline int rsk_sys_openat(int dir, const char *path, int flags, mode_t mode)
{
	return (int)RSK_SYS4(SYS_openat, dir, path, flags, mode);
}

struct open_how;
static inline int rsk_sys_openat2(int dir, const char *path, const struct open_how *how,
				  size_t bytes)
{
	return (int)RSK_SYS4(SYS_openat2, dir, path, how, bytes);
}

static inline int rsk_sys_close(int fd)
{
	return (int)RSK_SYS1(SYS_close, fd);
}

static inline int rsk_sys_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	return (int)RSK_SYS3(SYS_close_range, first, last, flags);
}

static inline int rsk_sys_fstat(int fd, struct stat *st)
{
	return (int)RSK_SYS2(SYS_fstat, fd, st);
}

static inline int rsk_sys_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return (int)RSK_SYS4(SYS_newfstatat, dir, path, st, flags);
}

static inline int rsk_sys_statx(int dir, const char *path, int flags, unsigned int mask,
				struct statx *st)
{
	return (int)RSK_SYS5(SYS_statx, dir, path, flags, mask, st);
}

static inline int rsk_sys_fstatfs(int fd, struct statfs *st)
{
	return (int)RSK_SYS2(SYS_fstatfs, fd, st);
}

static inline ssize_t rsk_sys_readlinkat(int dir, const char *path, char *buf, size_t len)
{
	return RSK_SYS4(SYS_readlinkat, dir, path, buf, len);
}

static inline int rsk_sys_mkdirat(int dir, const char *path, mode_t mode)
{
	return (int)RSK_SYS3(SYS_mkdirat, dir, path, mode);
}

static inline off_t rsk_sys_lseek(int fd, off_t at, int whence)
{
	return RSK_SYS3(SYS_lseek, fd, at, whence);
}

/*
 * May a file have that many bytes? Files in memory are subject to RLIMIT_FSIZE too, and beyond it
 * SIGXFSZ ends the process: the application's, which knows nothing of the file.
 */
static inline bool rsk_sys_file_fits(uint64_t bytes)
{
	struct rlimit lim;

	return RSK_SYS4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &lim) < 0 || bytes <= lim.rlim_cur;
}

static inline ssize_t rsk_sys_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	if (!rsk_sys_file_fits((uint64_t)at + len))
		return -EFBIG;
	return RSK_SYS4(SYS_pwrite64, fd, buf, len, at);
}

static inline int rsk_sys_ftruncate(int fd, off_t len)
{
	if (!rsk_sys_file_fits((uint64_t)len))
		return -EFBIG;
	return (int)RSK_SYS2(SYS_ftruncate, fd, len);
}

static inline ssize_t rsk_sys_getdents64(int fd, void *buf, size_t len)
{
	return RSK_SYS3(SYS_getdents64, fd, buf, len);
}

static inline int rsk_sys_fcntl(int fd, int cmd, long arg)
{
	return (int)RSK_SYS3(SYS_fcntl, fd, cmd, arg);
}

static inline int rsk_sys_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)RSK_SYS3(SYS_ioctl, fd, request, arg);
}

static inline int rsk_sys_dup3(int old, int new, int flags)
{
	return (int)RSK_SYS3(SYS_dup3, old, new, flags);
}

static inline int rsk_sys_pipe2(int fds[static 2], int flags)
{
	return (int)RSK_SYS2(SYS_pipe2, fds, flags);
}

/* --- memory ------------------------------------------------------------------------------ */

/* Returns the address, or a pointer for which rsk_sys_is_err() holds. */
static inline void *rsk_sys_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return (void *)RSK_SYS6(SYS_mmap, at, len, prot, flags, fd, off);
}

static inline int rsk_sys_munmap(void *at, size_t len)
{
	return (int)RSK_SYS2(SYS_munmap, at, len);
}

/* capget(2); a struct __user_cap_header_struct, and the data that its version has. */
static inline int rsk_sys_capget(void *header, void *data)
{
	return (int)RSK_SYS2(SYS_capget, header, data);
}

static inline int rsk_sys_mprotect(void *at, size_t len, int prot)
{
	return (int)RSK_SYS3(SYS_mprotect, at, len, prot);
}

static inline int rsk_sys_madvise(void *at, size_t len, int advice)
{
	return (int)RSK_SYS3(SYS_madvise, at, len, advice);
}

static inline int rsk_sys_memfd_create(const char *name, unsigned int flags)
{
	return (int)RSK_SYS2(SYS_memfd_create, name, flags);
}

/* --- sockets ----------------------------------------------------------------------------- */

static inline int rsk_sys_socket(int family, int type, int protocol)
{
	return (int)RSK_SYS3(SYS_socket, family, type, protocol);
}

static inline int rsk_sys_socketpair(int family, int type, int protocol, int fds[static 2])
{
	return (int)RSK_SYS4(SYS_socketpair, family, type, protocol, fds);
}

static inline int rsk_sys_bind(int fd, const void *addr, socklen_t len)
{
	return (int)RSK_SYS3(SYS_bind, fd, addr, len);
}

static inline int rsk_sys_listen(int fd, int backlog)
{
	return (int)RSK_SYS2(SYS_listen, fd, backlog);
}

static inline int rsk_sys_accept4(int fd, void *addr, socklen_t *len, int flags)
{
	return (int)RSK_SYS4(SYS_accept4, fd, addr, len, flags);
}

static inline int rsk_sys_connect(int fd, const void *addr, socklen_t len)
{
	return (int)RSK_SYS3(SYS_connect, fd, addr, len);
}

static inline int rsk_sys_shutdown(int fd, int how)
{
	return (int)RSK_SYS2(SYS_shutdown, fd, how);
}

static inline ssize_t rsk_sys_sendto(int fd, const void *buf, size_t len, int flags,
				     const void *addr, socklen_t addr_len)
{
	return RSK_SYS6(SYS_sendto, fd, buf, len, flags, addr, addr_len);
}

static inline ssize_t rsk_sys_recvfrom(int fd, void *buf, size_t len, int flags, void *addr,
				       socklen_t *addr_len)
{
	return RSK_SYS6(SYS_recvfrom, fd, buf, len, flags, addr, addr_len);
}

static inline ssize_t rsk_sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return RSK_SYS3(SYS_sendmsg, fd, msg, flags);
}

static inline ssize_t rsk_sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return RSK_SYS3(SYS_recvmsg, fd, msg, flags);
}

static inline int rsk_sys_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return (int)RSK_SYS5(SYS_getsockopt, fd, level, name, val, len);
}

static inline int rsk_sys_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return (int)RSK_SYS5(SYS_setsockopt, fd, level, name, val, len);
}

static inline int rsk_sys_getsockname(int fd, void *addr, socklen_t *len)
{
	return (int)RSK_SYS3(SYS_getsockname, fd, addr, len);
}

static inline int rsk_sys_getpeername(int fd, void *addr, socklen_t *len)
{
	return (int)RSK_SYS3(SYS_getpeername, fd, addr, len);
}

/* --- waiting ----------------------------------------------------------------------------- */

static inline int rsk_sys_ppoll(struct pollfd *fds, nfds_t n, struct timespec *timeout,
				const sigset_t *mask)
{
	return (int)RSK_SYS5(SYS_ppoll, fds, n, timeout, mask, RSK_SYS_SIGSET_BYTES);
}

static inline int rsk_sys_epoll_create1(int flags)
{
	return (int)RSK_SYS1(SYS_epoll_create1, flags);
}

static inline int rsk_sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return (int)RSK_SYS4(SYS_epoll_ctl, epfd, op, fd, ev);
}

static inline int rsk_sys_epoll_pwait(int epfd, struct epoll_event *evs, int n, int timeout_ms,
				      const sigset_t *mask)
{
	return (int)RSK_SYS6(SYS_epoll_pwait, epfd, evs, n, timeout_ms, mask, RSK_SYS_SIGSET_BYTES);
}

static inline int rsk_sys_eventfd2(unsigned int initial, int flags)
{
	return (int)RSK_SYS2(SYS_eventfd2, initial, flags);
}

static inline int rsk_sys_futex(uint32_t *word, int op, uint32_t val,
				const struct timespec *timeout, uint32_t *word2, uint32_t val3)
{
	return (int)RSK_SYS6(SYS_futex, word, op, val, timeout, word2, val3);
}

/* --- processes, threads, signals --------------------------------------------------------- */

static inline pid_t rsk_sys_getpid(void)
{
	return (pid_t)RSK_SYS0(SYS_getpid);
}

static inline pid_t rsk_sys_gettid(void)
{
	return (pid_t)RSK_SYS0(SYS_gettid);
}

static inline uid_t rsk_sys_geteuid(void)
{
	return (uid_t)RSK_SYS0(SYS_geteuid);
}

static inline int rsk_sys_kill(pid_t pid, int sig)
{
	return (int)RSK_SYS2(SYS_kill, pid, sig);
}

static inline int rsk_sys_tgkill(pid_t tgid, pid_t tid, int sig)
{
	return (int)RSK_SYS3(SYS_tgkill, tgid, tid, sig);
}

static inline int rsk_sys_rt_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)RSK_SYS4(SYS_rt_sigprocmask, how, set, old, RSK_SYS_SIGSET_BYTES);
}

static inline int rsk_sys_rt_tgsigqueueinfo(pid_t tgid, pid_t tid, int sig, siginfo_t *info)
{
	return (int)RSK_SYS4(SYS_rt_tgsigqueueinfo, tgid, tid, sig, info);
}

static inline int rsk_sys_sched_yield(void)
{
	return (int)RSK_SYS0(SYS_sched_yield);
}

static inline ssize_t rsk_sys_getrandom(void *buf, size_t len, unsigned int flags)
{
	return RSK_SYS3(SYS_getrandom, buf, len, flags);
}

static inline int rsk_sys_prctl(int op, long a, long b, long c, long d)
{
	return (int)RSK_SYS5(SYS_prctl, op, a, b, c, d);
}

static inline int rsk_sys_pidfd_getfd(int pidfd, int fd)
{
	return (int)RSK_SYS3(SYS_pidfd_getfd, pidfd, fd, 0);
}

static inline int rsk_sys_pidfd_open(pid_t pid, unsigned int flags)
{
	return (int)RSK_SYS2(SYS_pidfd_open, pid, flags);
}

static inline _Noreturn void rsk_sys_exit_group(int status)
{
	for (;;)
		RSK_SYS1(SYS_exit_group, status);
}

#endif /* RSOCK_SYS_H */
