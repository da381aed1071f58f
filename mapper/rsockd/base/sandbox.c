// SPDX-License-Identifier: BSD-2-Clause
/* sandbox.c - see sandbox.h. */
#include "sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int become(const char *name)
{
	const struct passwd *pw;

	errno = 0;
	pw = getpwnam(name);
	if (!pw)
		return errno ? -errno : -ENOENT;
	if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
		return -errno;
	return 0;
}

/*
 * Empties the bounding set, so that no program that we execute can gain a capability. This needs
 * CAP_SETPCAP; a process without it fails with EPERM, which is ignored, since it has no
 * capabilities to lose.
 */
static int empty_bounding_set(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
			return -errno;
	return 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

int rsk_sandbox_drop(const char *user)
{
	int rc = empty_bounding_set();

	if (rc == 0 && user && geteuid() == 0)
		rc = become(user);
	if (rc == 0)
		rc = drop_capabilities();
	if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		rc = -errno;
	return rc;
}

/*
 * The system calls of libevent's loop and its HTTP server, of malloc, of the network code (which
 * does not use getaddrinfo()), of a reload of the configuration, and of the thread that writes the
 * state file.
 */
static const int allowed[] = {
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(brk),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(connect),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(fcntl),
	SCMP_SYS(fstat),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fsync),
	SCMP_SYS(futex),
	SCMP_SYS(getdents64),
	SCMP_SYS(getpeername),
	SCMP_SYS(getpid),
	SCMP_SYS(getrandom),
	SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt),
	SCMP_SYS(gettid),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(ioctl),
	SCMP_SYS(listen),
	SCMP_SYS(lseek),
	SCMP_SYS(madvise),
	SCMP_SYS(memfd_create),
	SCMP_SYS(mmap),
	SCMP_SYS(mprotect),
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	SCMP_SYS(newfstatat),
	SCMP_SYS(openat),
	SCMP_SYS(pipe), /* for valgrind, in a helper process */
	SCMP_SYS(pipe2),
	SCMP_SYS(prctl),
	SCMP_SYS(pread64),
	SCMP_SYS(prlimit64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(read),
	SCMP_SYS(readlinkat),
	SCMP_SYS(readv),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sendfile),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(setsid),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(sysinfo),
	SCMP_SYS(tgkill),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(unlink),
	SCMP_SYS(wait4),
	SCMP_SYS(write),
	SCMP_SYS(writev),
};

/*
 * For libcurl, which looks at a socket by poll() without waiting; poll() that waits stays
 * forbidden. Where libc's poll() is ppoll(), the time is behind a pointer, and cannot be seen here.
 * The time of day is that of certificates, for a kernel that does not tell it without a call.
 */
static int allow_cluster(scmp_filter_ctx ctx)
{
	int rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(poll), 1,
				  SCMP_A2_32(SCMP_CMP_EQ, 0));

#ifndef SYS_poll
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ppoll), 0);
#endif
	return rc < 0 ? rc : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(time), 0);
}

static int install(bool cluster)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = 0;

	if (!ctx)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	/*
	 * Only fork()-like clones: for the helper processes that close what may take long to close
	 * (mapper/wire/helper.h).
	 */
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_EQ, 0));
	if (rc == 0 && cluster)
		rc = allow_cluster(ctx);
	if (rc == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return rc;
}

int rsk_sandbox_filter(void)
{
	return install(false);
}

int rsk_sandbox_filter_cluster(void)
{
	return install(true);
}
