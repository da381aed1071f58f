// SPDX-License-Identifier: BSD-2-Clause
/* test_sys.c - tests the raw system calls: libc's results, errors as -errno, errno untouched. */
#include <rsock/sys.h>

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

Test(sys, errors_come_back_and_errno_stays)
{
	struct stat st;
	char byte;

	errno = 4711;
	cr_assert_eq(rsk_sys_close(-1), -EBADF);
	cr_assert_eq(rsk_sys_read(-1, &byte, 1), -EBADF);
	cr_assert_eq(rsk_sys_openat(AT_FDCWD, "/nonexistent", O_RDONLY, 0), -ENOENT);
	cr_assert_eq(rsk_sys_fstat(-1, &st), -EBADF);
	cr_assert_eq(rsk_sys_kill(getpid(), 1000), -EINVAL);
	cr_assert_eq(rsk_sys_socket(AF_INET, 99, 0), -EINVAL);
	cr_assert(rsk_sys_is_err(
		rsk_sys_mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	cr_assert_eq(rsk_sys_ptr_err(
			     rsk_sys_mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
		     -EINVAL);
	cr_assert_eq(errno, 4711);
}

Test(sys, files)
{
	char name[] = "/tmp/rsock-test-sys-XXXXXX", buf[16] = "", ab[] = "ab", cd[] = "cd";
	int fd = mkstemp(name), fds[2];
	struct iovec iov[2] = { { .iov_base = ab, .iov_len = 2 },
				{ .iov_base = cd, .iov_len = 2 } };
	struct stat a, b;
	struct statx sx;

	cr_assert_geq(fd, 0);
	cr_assert_eq(writev(fd, iov, 2), 4);
	cr_assert_eq(rsk_sys_pwrite(fd, "X", 1, 10), 1);
	cr_assert_eq(rsk_sys_pwritev2(fd, iov, 1, 6, 0), 2);
	cr_assert_eq(rsk_sys_pread(fd, buf, sizeof(buf), 0), 11);
	cr_assert_arr_eq(buf, "abcd\0\0ab\0\0X", 11);
	iov[0] = (struct iovec){ .iov_base = buf, .iov_len = 3 };
	cr_assert_eq(rsk_sys_preadv2(fd, iov, 1, 1, 0), 3);
	cr_assert_arr_eq(buf, "bcd", 3);
	cr_assert_eq(rsk_sys_fstat(fd, &a), 0);
	cr_assert_eq(fstat(fd, &b), 0);
	cr_assert_eq(a.st_ino, b.st_ino);
	cr_assert_eq(a.st_size, 11);
	cr_assert_eq(a.st_mode, b.st_mode);
	cr_assert_eq(a.st_uid, b.st_uid);
	cr_assert_eq(rsk_sys_fstatat(AT_FDCWD, name, &b, 0), 0);
	cr_assert_eq(a.st_ino, b.st_ino);
	cr_assert_eq(rsk_sys_statx(AT_FDCWD, name, 0, STATX_SIZE, &sx), 0);
	cr_assert_eq(sx.stx_size, 11);
	cr_assert_eq(rsk_sys_ftruncate(fd, 3), 0);
	cr_assert_eq(rsk_sys_fstat(fd, &a), 0);
	cr_assert_eq(a.st_size, 3);
	cr_assert_eq(rsk_sys_dup3(fd, 200, O_CLOEXEC), 200);
	cr_assert_eq(rsk_sys_fcntl(200, F_GETFD, 0), FD_CLOEXEC);
	cr_assert_eq(rsk_sys_close_range(200, 200, 0), 0);
	cr_assert_eq(rsk_sys_close(200), -EBADF);
	cr_assert_eq(unlink(name), 0);
	cr_assert_eq(rsk_sys_pipe2(fds, O_NONBLOCK), 0);
	cr_assert_eq(rsk_sys_read(fds[0], buf, 1), -EAGAIN);
	cr_assert_eq(rsk_sys_write(fds[1], "x", 1), 1);
	cr_assert_eq(rsk_sys_ioctl(fds[0], 0x541b /* FIONREAD */, &fds[1]), 0);
	cr_assert_eq(fds[1], 1);
}

Test(sys, memory)
{
	int fd = rsk_sys_memfd_create("rsock-test", MFD_CLOEXEC);
	char *p;

	cr_assert_geq(fd, 0);
	cr_assert_eq(rsk_sys_ftruncate(fd, 8192), 0);
	p = rsk_sys_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert(!rsk_sys_is_err(p));
	p[8191] = 'z';
	cr_assert_eq(rsk_sys_mprotect(p, 8192, PROT_READ), 0);
	cr_assert_eq(rsk_sys_madvise(p, 8192, MADV_NORMAL), 0);
	cr_assert_eq(p[8191], 'z');
	cr_assert_eq(rsk_sys_munmap(p, 8192), 0);
	/* An offset beyond 32 bits is not truncated. */
	cr_assert_eq(rsk_sys_ftruncate(fd, (off_t)5 << 32), 0);
	cr_assert_eq(rsk_sys_pwrite(fd, "q", 1, (off_t)4 << 32), 1);
	p = rsk_sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t)4 << 32);
	cr_assert(!rsk_sys_is_err(p));
	cr_assert_eq(p[0], 'q');
	cr_assert_eq(rsk_sys_munmap(p, 4096), 0);
}

Test(sys, sockets)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t len = sizeof(a);
	int l, c, s, val = 0, fds[2];
	char buf[8];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	l = rsk_sys_socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(rsk_sys_bind(l, &a, sizeof(a)), 0);
	cr_assert_eq(rsk_sys_listen(l, 1), 0);
	cr_assert_eq(rsk_sys_getsockname(l, &a, &len), 0);
	c = rsk_sys_socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(rsk_sys_connect(c, &a, sizeof(a)), 0);
	s = rsk_sys_accept4(l, &a, &len, SOCK_NONBLOCK);
	cr_assert_geq(s, 0);
	cr_assert_eq(rsk_sys_getpeername(c, &a, &len), 0);
	cr_assert_eq(rsk_sys_recvfrom(s, buf, 8, 0, NULL, NULL), -EAGAIN);
	cr_assert_eq(rsk_sys_sendto(c, "hello", 5, MSG_NOSIGNAL, NULL, 0), 5);
	cr_assert_eq(rsk_sys_recvmsg(s, &msg, MSG_WAITALL), 5);
	iov.iov_len = 3;
	cr_assert_eq(rsk_sys_sendmsg(s, &msg, MSG_NOSIGNAL), 3);
	cr_assert_eq(rsk_sys_recvfrom(c, buf, 8, 0, NULL, NULL), 3);
	val = 1;
	cr_assert_eq(rsk_sys_setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &val, sizeof(val)), 0);
	val = 0;
	len = sizeof(val);
	cr_assert_eq(rsk_sys_getsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &val, &len), 0);
	cr_assert_eq(val, 1);
	cr_assert_eq(rsk_sys_shutdown(c, SHUT_WR), 0);
	cr_assert_eq(rsk_sys_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(rsk_sys_write(fds[0], "x", 1), 1);
	cr_assert_eq(rsk_sys_read(fds[1], buf, 8), 1);
}

Test(sys, waiting)
{
	struct timespec soon = { .tv_nsec = 1000000 }, ts = soon;
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT64_C(0x123456789abcdef0) },
			   got;
	int fd = rsk_sys_eventfd2(0, O_NONBLOCK), ep = rsk_sys_epoll_create1(EPOLL_CLOEXEC);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t one = 1;
	uint32_t word = 5;
	sigset_t none;

	sigemptyset(&none);
	cr_assert_eq(rsk_sys_ppoll(&p, 1, &ts, &none), 0);
	cr_assert_eq(rsk_sys_epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	cr_assert_eq(rsk_sys_epoll_pwait(ep, &got, 1, 0, &none), 0);
	cr_assert_eq(rsk_sys_write(fd, &one, sizeof(one)), 8);
	cr_assert_eq(rsk_sys_ppoll(&p, 1, NULL, NULL), 1);
	cr_assert_eq(rsk_sys_epoll_pwait(ep, &got, 1, -1, NULL), 1);
	cr_assert_eq(got.data.u64, ev.data.u64);
	cr_assert_eq(rsk_sys_futex(&word, FUTEX_WAIT, 4, NULL, NULL, 0), -EAGAIN);
	cr_assert_eq(rsk_sys_futex(&word, FUTEX_WAIT, 5, &soon, NULL, 0), -ETIMEDOUT);
	cr_assert_eq(rsk_sys_futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0), 0);
}

Test(sys, signals_and_identity)
{
	siginfo_t got, info = { .si_signo = SIGUSR1, .si_code = SI_QUEUE };
	sigset_t set, old, now;
	char name[16];

	cr_assert_eq(rsk_sys_getpid(), getpid());
	cr_assert_eq(rsk_sys_gettid(), gettid());
	cr_assert_eq(rsk_sys_geteuid(), geteuid());
	cr_assert_eq(rsk_sys_sched_yield(), 0);
	cr_assert_eq(rsk_sys_prctl(PR_GET_NAME, (long)name, 0, 0, 0), 0);
	cr_assert_eq(rsk_sys_getrandom(name, sizeof(name), 0), (ssize_t)sizeof(name));

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	cr_assert_eq(rsk_sys_rt_sigprocmask(SIG_BLOCK, &set, &old), 0);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	cr_assert_eq(sigismember(&now, SIGUSR1), 1);
	info.si_value.sival_int = 77;
	info.si_pid = getpid();
	info.si_uid = getuid();
	cr_assert_eq(rsk_sys_rt_tgsigqueueinfo(getpid(), gettid(), SIGUSR1, &info), 0);
	cr_assert_eq(sigwaitinfo(&set, &got), SIGUSR1);
	cr_assert_eq(got.si_value.sival_int, 77);
	cr_assert_eq(rsk_sys_rt_sigprocmask(SIG_SETMASK, &old, NULL), 0);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	cr_assert_eq(sigismember(&now, SIGUSR1), 0);
	cr_assert_eq(rsk_sys_tgkill(getpid(), gettid(), 0), 0);
	cr_assert_eq(rsk_sys_kill(getpid(), 0), 0);
}

Test(sys, exit_is_at_once)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		rsk_sys_exit_group(42);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}
