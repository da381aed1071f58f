/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_syscall.c - the hook of syscall(): calls in syscalls.def go to the hooks of libc's functions
 * of the same name, the rest straight to the kernel.
 *
 * libuv closes its descriptors this way, and other programs read and write this way. There are two
 * differences to libc's functions: no call here is a cancellation point, and some have the kernel's
 * form (signal sets of eight bytes with their size; the remaining time is written back).
 */
#include <linux/aio_abi.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define RSK_EXPORT_syscall 1
#include "export.h"
#include "fork.h"
#include "hook.h"

/* The hooks of the other families. */
#define RSK_EXIT(name, params, args, family, raw, note)                                            \
	void rsk_hook_##name params __attribute__((noreturn));
#define RSK_SYM(ret, name, params, args, family, raw, note) ret rsk_hook_##name params;
#include "symbols.def"

static long straight(long nr, const long a[static 6])
{
	return rsk_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define INT(i) ((int)a[i])
#define SIZE(i) ((size_t)a[i])
#define PTR(i) ((void *)a[i]) /* NOLINT(performance-no-int-to-ptr): the kernel's view of it */
/* The kernel reads 32 bits of it; a value above its limit stays above the limit as an int. */
#define COUNT(i) ((unsigned int)a[i] > RSK_IOV_MAX ? RSK_IOV_MAX + 1 : (int)a[i])

/* ---- waiting, in the kernel's form ---- */

/* A signal set by its address and size. False: the kernel has to report the error. */
static bool rsk_kernel_mask(const void *from, size_t size, sigset_t *mask, const sigset_t **use)
{
	*use = NULL;
	if (!from)
		return true;
	if (size != RSK_SYS_SIGSET_BYTES || !rsk_reads(from, size))
		return false;
	sigemptyset(mask);
	memcpy(mask, from, RSK_SYS_SIGSET_BYTES);
	*use = mask;
	return true;
}

/* Writes the rest of @timeout as the kernel does; not for a timeout of 0. */
static void rsk_time_left(struct timespec *timeout, const struct timespec *since)
{
	struct timespec now;
	int64_t ns;

	if (!timeout || !rsk_writable(timeout) || (!timeout->tv_sec && !timeout->tv_nsec))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	/* The elapsed time fits 64 bits of nanoseconds; the timeout need not. */
	ns = (now.tv_sec - since->tv_sec) * 1000000000LL + now.tv_nsec - since->tv_nsec;
	timeout->tv_sec -= ns / 1000000000LL;
	timeout->tv_nsec -= ns % 1000000000LL;
	if (timeout->tv_nsec < 0) {
		timeout->tv_nsec += 1000000000L;
		timeout->tv_sec--;
	}
	if (timeout->tv_sec < 0)
		*timeout = (struct timespec){ 0 };
}

static long by_ppoll(long nr, const long a[static 6])
{
	struct timespec *timeout = PTR(2), given, since;
	const sigset_t *use;
	sigset_t mask;
	int ret;

	if (!rsk_touch_ready || !rsk_timespec_valid(timeout) ||
	    !rsk_kernel_mask(PTR(3), SIZE(4), &mask, &use) ||
	    !rsk_poll_is_ours(PTR(0), (nfds_t)a[1]))
		return straight(nr, a);
	if (timeout)
		given = *timeout;
	clock_gettime(CLOCK_MONOTONIC, &since);
	ret = rsk_poll_ours(PTR(0), (nfds_t)a[1], timeout ? &given : NULL, use);
	rsk_time_left(timeout, &since);
	return ret;
}

static long by_pselect6(long nr, const long asked[static 6])
{
	long a[6] = {
		rsk_select_n((int)asked[0]), asked[1], asked[2], asked[3], asked[4], asked[5]
	};
	struct timespec *timeout = PTR(4), given, since;
	struct {
		const void *set;
		size_t size;
	} sig = { 0 };
	const sigset_t *use;
	sigset_t mask;
	int ret;

	if (!rsk_touch_ready)
		return straight(nr, a);
	if (PTR(5)) {
		if (!rsk_reads(PTR(5), sizeof(sig)))
			return straight(nr, a);
		memcpy(&sig, PTR(5), sizeof(sig));
	}
	if (!rsk_timespec_valid(timeout) || !rsk_kernel_mask(sig.set, sig.size, &mask, &use) ||
	    !rsk_select_is_ours(INT(0), PTR(1), PTR(2), PTR(3)))
		return straight(nr, a);
	if (timeout)
		given = *timeout;
	clock_gettime(CLOCK_MONOTONIC, &since);
	ret = rsk_select(INT(0), PTR(1), PTR(2), PTR(3), timeout ? &given : NULL, use);
	rsk_time_left(timeout, &since);
	return (int)rsk_result(ret);
}

#ifdef SYS_poll
static long by_poll(long nr, const long a[static 6])
{
	if (!rsk_poll_is_ours(PTR(0), (nfds_t)(unsigned int)a[1]))
		return straight(nr, a);
	return rsk_hook_poll(PTR(0), (nfds_t)(unsigned int)a[1], INT(2));
}

static long by_select(long nr, const long a[static 6])
{
	int n = rsk_select_n(INT(0));

	if (!rsk_select_is_ours(n, PTR(1), PTR(2), PTR(3)))
		return rsk_real.syscall(nr, (long)n, a[1], a[2], a[3], a[4]);
	return rsk_hook_select(INT(0), PTR(1), PTR(2), PTR(3), PTR(4));
}
#endif

static long by_epoll_pwait(long nr, const long a[static 6])
{
	const sigset_t *use;
	sigset_t mask;

	if (!rsk_tracked_epoll(INT(0)) || !rsk_kernel_mask(PTR(4), SIZE(5), &mask, &use))
		return straight(nr, a);
	return rsk_hook_epoll_pwait(INT(0), PTR(1), INT(2), INT(3), use);
}

#ifdef SYS_epoll_pwait2
static long by_epoll_pwait2(long nr, const long a[static 6])
{
	const sigset_t *use;
	sigset_t mask;

	if (!rsk_tracked_epoll(INT(0)) || !rsk_kernel_mask(PTR(4), SIZE(5), &mask, &use))
		return straight(nr, a);
	return rsk_hook_epoll_pwait2(INT(0), PTR(1), INT(2), PTR(3), use);
}
#endif

/* ---- other calls without a libc function ---- */

/* The kernel reads and writes asynchronously. */
static long by_io_submit(long nr, const long a[static 6])
{
	struct iocb *const *list = PTR(2);

	if (rsk_live() && rsk_touch_ready)
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): a pointer is what is to be read */
		for (long i = 0; i < a[1] && rsk_readable(&list[i]); i++)
			if (rsk_readable(list[i]) && rsk_tracked((int)list[i]->aio_fildes) &&
			    rsk_fd_fall_back((int)list[i]->aio_fildes, RSK_REASON_AIO) < 0)
				return rsk_result(-EAGAIN);
	return rsk_counted(straight(nr, a));
}

static long by_exit_group(const long a[static 6])
{
	rsk_hook__exit(INT(0));
}

static long by_seccomp(long nr, const long a[static 6])
{
	long ret;

	/* What the kernel refuses in any case changes nothing: libseccomp asks so what there is. */
	if ((a[0] == SECCOMP_SET_MODE_STRICT && !a[1] && !PTR(2) && rsk_seccomp_begins(NULL) < 0) ||
	    (a[0] == SECCOMP_SET_MODE_FILTER && PTR(2) && rsk_seccomp_begins(PTR(2)) < 0))
		return rsk_result(-EAGAIN);
	ret = straight(nr, a);
	if (ret > 0 && a[0] == SECCOMP_SET_MODE_FILTER && (a[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER))
		rsk_made((int)ret);
	return ret;
}

/*
 * Whether system call @nr (arguments @a) is a fork that returns here in the child. A child with its
 * own stack does not.
 */
static bool rsk_syscall_forks(long nr, const long a[static 6])
{
	const struct clone_args *args = PTR(0);

	switch (nr) {
#ifdef SYS_fork
	case SYS_fork:
		return true;
#endif
	case SYS_clone:
		return !(a[0] & CLONE_VM) && !a[1];
	case SYS_clone3:
		return a[1] >= (long)CLONE_ARGS_SIZE_VER0 && rsk_readable(args) &&
		       !(args->flags & CLONE_VM) && !args->stack;
	default:
		return false;
	}
}

/* Where the kernel stores the child's pidfd for the parent; NULL: none was asked for. */
static const int *rsk_syscall_pidfd(long nr, const long a[static 6])
{
	const struct clone_args *args = PTR(0);

	if (nr == SYS_clone && (a[0] & CLONE_PIDFD))
		return PTR(2);
	if (nr == SYS_clone3 && a[1] >= (long)CLONE_ARGS_SIZE_VER0 && rsk_readable(args) &&
	    (args->flags & CLONE_PIDFD))
		return (const int *)(uintptr_t)args->pidfd;
	return NULL;
}

static long by_fork(long nr, const long a[static 6])
{
	const int *pidfd = rsk_syscall_pidfd(nr, a);
	bool forks = rsk_live() && rsk_syscall_forks(nr, a);
	long ret;

	if (forks)
		rsk_fork_before();
	ret = straight(nr, a);
	if (forks)
		rsk_fork_after((pid_t)ret);
	if (ret > 0 && pidfd)
		rsk_made(*pidfd);
	return ret;
}

/* ---- the table ---- */

enum {
	ANY = 0,
	FIRST = 1,
	SECOND = 2,
	THIRD = 4
};

struct rsk_call_row {
	long (*call)(long nr, const long a[static 6]);
	/* which arguments are descriptors; one of them has to be in the table */
	uint8_t tracked;
};

#define RSK_CALL(name, tracked, expr)                                                              \
	static long rsk_call_##name(long nr, const long a[static 6])                               \
	{                                                                                          \
		return expr;                                                                       \
	}
#define RSK_NEW(name) RSK_CALL(name, ANY, rsk_made((int)straight(nr, a)))
#define RSK_NEW_TWO(name, at)                                                                      \
	static long rsk_call_##name(long nr, const long a[static 6])                               \
	{                                                                                          \
		const int *fds = PTR(at);                                                          \
		long ret = straight(nr, a);                                                        \
                                                                                                   \
		if (ret == 0) {                                                                    \
			rsk_made(fds[0]);                                                          \
			rsk_made(fds[1]);                                                          \
		}                                                                                  \
		return ret;                                                                        \
	}
#include "syscalls.def"

static const struct rsk_call_row rsk_call_rows[] = {
#define RSK_CALL(name, tracked, expr) [SYS_##name] = { rsk_call_##name, tracked },
#define RSK_NEW(name) RSK_CALL(name, ANY, )
#define RSK_NEW_TWO(name, at) RSK_CALL(name, ANY, )
#include "syscalls.def"
};

#define RSK_CALL_ROWS (long)(sizeof(rsk_call_rows) / sizeof(rsk_call_rows[0]))

static bool rsk_call_concerns(const struct rsk_call_row *row, const long a[static 6])
{
	if (row->tracked == ANY)
		return true;
	for (int i = 0; i < 3; i++)
		if ((row->tracked & 1u << i) && rsk_known(INT(i)))
			return true;
	rsk_count_kernel_call();
	return false;
}

/*
 * errno is set by the hook or the kernel. Cancellation is disabled in here, except in a vfork
 * child, which may not return and shares its state with the parent.
 */
static rsk_noinline long rsk_call_by_row(long nr, const long a[static 6])
{
	int state = PTHREAD_CANCEL_ENABLE;
	long ret;

	if (rsk_direct)
		return rsk_call_rows[nr].call(nr, a);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = rsk_call_rows[nr].call(nr, a);
	pthread_setcancelstate(state, NULL);
	return ret;
}

long rsk_hook_syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (rsk_unlikely(nr >= 0 && nr < RSK_CALL_ROWS && rsk_call_rows[nr].call) &&
	    (rsk_booted || rsk_boot_waiting()) && rsk_call_concerns(&rsk_call_rows[nr], a))
		return rsk_call_by_row(nr, a);
	return rsk_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
