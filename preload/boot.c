/* SPDX-License-Identifier: BSD-2-Clause */
/* boot.c - the start-up steps, and the call at exit; see boot.h. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "boot.h"
#include "engine.h"
#include "fork.h"
#include "signal_trampoline.h"
#include "real.h"

bool rsk_booted;

/*
 * The libc functions that the engine may call (host.h), through the table, which is filled by then.
 */
static int rsk_host_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
			  const sigset_t *mask)
{
	return rsk_real.ppoll(fds, n, ts, mask);
}

static int rsk_host_epoll_pwait(int epfd, struct epoll_event *evs, int max, int timeout_ms,
				const sigset_t *mask)
{
	return rsk_real.epoll_pwait(epfd, evs, max, timeout_ms, mask);
}

static const struct rsk_host rsk_boot_host = {
	.ppoll = rsk_host_ppoll,
	.epoll_pwait = rsk_host_epoll_pwait,
	.in_handler = rsk_trampoline_in_handler,
	.guard_pending = rsk_trampoline_pending,
	.streams = rsk_trampoline_faults,
};

/*
 * The steps. Each returns 0 to go on, or -errno to stop there: the hooks then only make the real
 * call. No step waits or starts a thread. No step makes a system call (beyond what dlsym's own
 * allocations may), but for the last one: fstat(2), which the loader makes as well, and more only
 * for a program that finds a TCP socket.
 */
static int rsk_boot_symbols(void)
{
	rsk_real_resolve();
	return 0;
}

/* A set-uid program's environment is under another user's control. */
static int rsk_boot_trusted(void)
{
	return getauxval(AT_SECURE) ? -EPERM : 0;
}

static int rsk_boot_wanted(void)
{
	const char *off = getenv("RSOCK_DISABLE");

	return off && *off && *off != '0' ? -ECANCELED : 0;
}

static int rsk_boot_engine(void)
{
	rsk_engine_init(&rsk_boot_host);
	return 0;
}

/*
 * exit() and the return from main run destructors, quick_exit() its own list: the first entry is
 * run last.
 */
static void rsk_boot_end(void)
{
	if (rsk_booted && !rsk_direct)
		rsk_exit();
}

static int rsk_boot_quick_exit(void)
{
	return at_quick_exit(rsk_boot_end) ? -ENOMEM : 0;
}

static int rsk_boot_inherited(void)
{
	rsk_fd_at_start();
	return 0;
}

static int (*const rsk_ladder[])(void) = {
	rsk_boot_symbols, rsk_boot_trusted,    rsk_boot_wanted,	   rsk_boot_engine,
	rsk_fork_boot,	  rsk_boot_quick_exit, rsk_boot_inherited,
};

enum {
	RSK_BOOT_NOT,
	RSK_BOOT_CLIMBING,
	RSK_BOOT_DONE
};
static _Atomic(int) rsk_boot_state;

bool rsk_boot(void)
{
	int state = RSK_BOOT_NOT, saved = errno, rc = 0;

	if (!atomic_compare_exchange_strong(&rsk_boot_state, &state, RSK_BOOT_CLIMBING))
		return state == RSK_BOOT_DONE;
	for (size_t i = 0; rc == 0 && i < sizeof(rsk_ladder) / sizeof(rsk_ladder[0]); i++)
		rc = rsk_ladder[i]();
	__atomic_store_n(&rsk_booted, rc == 0, __ATOMIC_RELEASE);
	atomic_store(&rsk_boot_state, RSK_BOOT_DONE);
	errno = saved;
	return true;
}

__attribute__((constructor)) static void rsk_boot_constructor(void)
{
	rsk_boot();
}

__attribute__((destructor)) static void rsk_boot_destructor(void)
{
	rsk_boot_end();
}
