/* SPDX-License-Identifier: BSD-2-Clause */
/* hook_proc.c - hooks of all forms of fork(), of posix_spawn(), and of the exit of a process. */
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define RSK_EXPORT_proc 1
#include "export.h"
#include "fork.h"
#include "hook.h"

int rsk_vfork_failed(int err);
void rsk_vfork_before(void);

pid_t rsk_hook_fork(void)
{
	if (!rsk_live())
		return rsk_real.fork();
	return rsk_fork_libc();
}

pid_t rsk_hook__Fork(void)
{
	pid_t pid;

	rsk_fork_before();
	pid = rsk_real._Fork();
	rsk_fork_after(pid);
	return pid;
}

/* From vfork.S: -errno of the system call. */
int rsk_vfork_failed(int err)
{
	return (int)rsk_result(err);
}

/* From vfork.S, in the parent. */
void rsk_vfork_before(void)
{
	int saved = errno;

	if (rsk_live())
		rsk_vfork_prepare();
	errno = saved;
}

/* ---- clone ---- */

/* In the caller's frame; a child without CLONE_VM has its own copy of it at the same address. */
struct rsk_clone_start {
	int (*fn)(void *);
	void *arg;
};

static int rsk_clone_child(void *p)
{
	struct rsk_clone_start start = *(struct rsk_clone_start *)p;

	rsk_fork_after(0);
	return start.fn(start.arg);
}

/*
 * Depends on what the child shares. A thread (or a child that shares memory and fds as one does)
 * needs nothing. Shared memory with a waiting parent is vfork; a copy of the memory is fork. Shared
 * memory with its own fds and no waiting is a process that would close fds behind our tables: all
 * streams fall back first.
 */
int rsk_hook_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct rsk_clone_start start = { fn, arg };
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list ap;
	int ret;

	va_start(ap, arg);
	parent_tid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, pid_t *);
	va_end(ap);

	if (!rsk_live() || !fn || !stack || (flags & CLONE_THREAD) ||
	    (flags & (CLONE_VM | CLONE_FILES)) == (CLONE_VM | CLONE_FILES))
		return rsk_real.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
	if (!(flags & CLONE_VM)) {
		rsk_fork_before();
		ret = rsk_real.clone(rsk_clone_child, stack, flags, &start, parent_tid, tls,
				     child_tid);
		rsk_fork_after(ret < 0 ? -1 : ret);
		return ret;
	}
	if ((flags & CLONE_VFORK) && !(flags & CLONE_SETTLS)) {
		rsk_vfork_before();
		rsk_direct++; /* also the child's word: it has our thread pointer */
		ret = rsk_real.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
		rsk_direct--;
		return ret;
	}
	if (rsk_fall_back_all(RSK_REASON_UNSUPPORTED) < 0)
		return (int)rsk_result(-EAGAIN);
	return rsk_real.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
}

/* ---- libc's other forks ---- */

/*
 * libc has replaced fds 0 to 2 by calls that no hook sees. In a program that refers to forkpty() or
 * login_tty() they are not on the ring (std_use.h).
 */
static void rsk_forget_stdio(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO && rsk_live(); fd++)
		rsk_fd_new(fd);
}

pid_t rsk_hook_forkpty(int *master, char *name, const struct termios *tio,
		       const struct winsize *size)
{
	pid_t pid = rsk_real.forkpty(master, name, tio, size);

	if (pid == 0)
		rsk_forget_stdio();
	else if (pid > 0)
		rsk_made(*master);
	return pid;
}

int rsk_hook_login_tty(int fd)
{
	int ret = rsk_real.login_tty(fd);

	if (ret == 0)
		rsk_forget_stdio();
	return ret;
}

/*
 * libc's version ends the parent by an _exit() that no hook sees: the peers would not learn that it
 * is gone.
 */
int rsk_hook_daemon(int nochdir, int noclose)
{
	struct stat st;
	int fd;

	if (!rsk_live())
		return rsk_real.daemon(nochdir, noclose);
	switch (rsk_fork_libc()) {
	case -1:
		return -1;
	case 0:
		break;
	default:
		rsk_exit();
		rsk_sys_exit_group(0);
	}
	if (setsid() == -1)
		return -1;
	if (!nochdir && chdir("/") < 0)
		errno = 0; /* as libc's: not checked */
	if (noclose)
		return 0;
	fd = rsk_sys_openat(AT_FDCWD, "/dev/null", O_RDWR, 0);
	if (fd < 0)
		return (int)rsk_result(fd);
	if (rsk_sys_fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3)) {
		rsk_sys_close(fd);
		return (int)rsk_result(-ENODEV);
	}
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++) {
		rsk_fd_closing(to);
		if (fd != to)
			rsk_sys_dup3(fd, to, 0);
	}
	if (fd > STDERR_FILENO)
		rsk_sys_close(fd);
	return 0;
}

/*
 * libc makes the child and runs it up to its exec. A stream that is named for the child is meant
 * for the next program, which may not use this library; so it falls back when it is named. The
 * program inherits all fds without FD_CLOEXEC, and may have been told their numbers.
 */
static rsk_noinline int rsk_filtered_spawn(__typeof__(posix_spawn) *spawn, pid_t *pid,
					   const char *file,
					   const posix_spawn_file_actions_t *actions,
					   const posix_spawnattr_t *attr, char *const *argv,
					   char *const *envp)
{
	struct rsk_exec_env e;

	return rsk_env_end(&e, spawn(pid, file, actions, attr, argv, rsk_env_begin(&e, envp)));
}

int rsk_hook_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	int rc = rsk_booted ? rsk_exec_vforked() : 0;

	if (rsk_kernel_only())
		return rsk_filtered_spawn(rsk_real.posix_spawn, pid, path, actions, attr, argv,
					  envp);
	return rc < 0 ? -rc : rsk_real.posix_spawn(pid, path, actions, attr, argv, envp);
}

int rsk_hook_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	int rc = rsk_booted ? rsk_exec_vforked() : 0;

	if (rsk_kernel_only())
		return rsk_filtered_spawn(rsk_real.posix_spawnp, pid, file, actions, attr, argv,
					  envp);
	return rc < 0 ? -rc : rsk_real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

#if __GLIBC_PREREQ(2, 39)
/* @pidfd may be NULL. */
static int rsk_pidfd_spawned(int rc, const int *pidfd)
{
	if (rc == 0 && pidfd)
		rsk_made(*pidfd);
	return rc;
}

int rsk_hook_pidfd_spawn(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	int rc = rsk_booted ? rsk_exec_vforked() : 0;

	if (rc < 0)
		return -rc;
	if (rsk_kernel_only())
		rc = rsk_filtered_spawn(rsk_real.pidfd_spawn, pidfd, path, actions, attr, argv,
					envp);
	else
		rc = rsk_real.pidfd_spawn(pidfd, path, actions, attr, argv, envp);
	return rsk_pidfd_spawned(rc, pidfd);
}

int rsk_hook_pidfd_spawnp(int *pidfd, const char *file, const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	int rc = rsk_booted ? rsk_exec_vforked() : 0;

	if (rc < 0)
		return -rc;
	if (rsk_kernel_only())
		rc = rsk_filtered_spawn(rsk_real.pidfd_spawnp, pidfd, file, actions, attr, argv,
					envp);
	else
		rc = rsk_real.pidfd_spawnp(pidfd, file, actions, attr, argv, envp);
	return rsk_pidfd_spawned(rc, pidfd);
}
#endif

int rsk_hook_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	int rc = rsk_tracked(fd) ? rsk_fd_fall_back(fd, RSK_REASON_EXEC) : 0;

	if (rc < 0)
		return -rc;
	return rsk_real.posix_spawn_file_actions_adddup2(actions, fd, to);
}

/* ---- exit ---- */

void rsk_hook__exit(int status)
{
	if (rsk_live())
		rsk_exit();
	rsk_real._exit(status);
	__builtin_unreachable();
}

void rsk_hook__Exit(int status)
{
	if (rsk_live())
		rsk_exit();
	rsk_real._Exit(status);
	__builtin_unreachable();
}

/* Its handlers may still send; the engine's own handler, registered at boot, runs last (boot.c). */
void rsk_hook_quick_exit(int status)
{
	rsk_real.quick_exit(status);
	__builtin_unreachable();
}
