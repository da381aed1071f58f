/* SPDX-License-Identifier: BSD-2-Clause */
/* boot.c - the start-up steps, and the call at exit; see boot.h. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "boot.h"
#include "engine.h"
#include "filter_trial.h"
#include "fork.h"
#include "signal_trampoline.h"
#include "real.h"

_Atomic(bool) rsk_booted;
bool rsk_boot_follows;

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
 * call; -EAGAIN: rsk_boot_late() goes on with the next one. No step starts a thread. Up to
 * rsk_boot_waits() no step makes a system call that the loader does not make as well (memory for
 * lists of libc's, reading a file).
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

/* The process has begun under a seccomp filter. */
static bool rsk_boot_filtered;

static int rsk_boot_engine(void)
{
	rsk_boot_filtered = rsk_filter_is_there();
	if (rsk_boot_filtered)
		rsk_engine_prepare(&rsk_boot_host);
	else
		rsk_engine_init(&rsk_boot_host);
	rsk_boot_follows = true;
	return 0;
}

/* Where there may be a connection already, the trial is made at once. */
static int rsk_boot_waits(void)
{
	return rsk_boot_filtered && !rsk_fd_any_at_start() ? -EAGAIN : 0;
}

static int rsk_boot_tried(void)
{
	enum rsk_trial got = rsk_boot_filtered ? rsk_filter_try() : RSK_TRIAL_PASSED;

	if (got == RSK_TRIAL_STRICT)
		rsk_engine_within_host();
	if (got != RSK_TRIAL_PASSED && got != RSK_TRIAL_STRICT)
		return -EPERM;
	if (rsk_boot_filtered)
		rsk_engine_begin();
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

/* rsk_boot_late() goes on from here; 0: start-up did not wait. */
static size_t rsk_boot_waited;

/* Once start-up has waited, the program may use what is there now; at the start nothing was. */
static int rsk_boot_inherited(void)
{
	if (!rsk_boot_waited)
		rsk_fd_at_start();
	return 0;
}

static int (*const rsk_ladder[])(void) = {
	rsk_boot_symbols,    rsk_boot_trusted, rsk_boot_wanted, rsk_boot_engine,    rsk_fork_boot,
	rsk_boot_quick_exit, rsk_boot_waits,   rsk_boot_tried,	rsk_boot_inherited,
};

/* From RSK_BOOT_WAITS on, libc's functions are known. */
enum {
	RSK_BOOT_NOT,
	RSK_BOOT_CLIMBING,
	RSK_BOOT_WAITS,
	RSK_BOOT_CLIMBING_ON,
	RSK_BOOT_DONE
};
static _Atomic(int) rsk_boot_state;
static size_t rsk_boot_step; /* the next one; of the thread that climbs */

static void rsk_boot_climb(void)
{
	int saved = errno, rc = 0;

	while (rc == 0 && rsk_boot_step < sizeof(rsk_ladder) / sizeof(rsk_ladder[0]))
		rc = rsk_ladder[rsk_boot_step++]();
	if (rc == -EAGAIN)
		rsk_boot_waited = rsk_boot_step;
	atomic_store(&rsk_booted, rc == 0);
	atomic_store(&rsk_boot_state, rc == -EAGAIN ? RSK_BOOT_WAITS : RSK_BOOT_DONE);
	errno = saved;
}

bool rsk_boot(void)
{
	int state = RSK_BOOT_NOT;

	if (!atomic_compare_exchange_strong(&rsk_boot_state, &state, RSK_BOOT_CLIMBING))
		return state >= RSK_BOOT_WAITS;
	rsk_boot_climb();
	return true;
}

bool rsk_boot_waiting(void)
{
	return atomic_load(&rsk_boot_state) == RSK_BOOT_WAITS;
}

void rsk_boot_forked(void)
{
	int state = RSK_BOOT_CLIMBING_ON;

	if (!atomic_compare_exchange_strong(&rsk_boot_state, &state, RSK_BOOT_WAITS))
		return;
	rsk_boot_step = rsk_boot_waited;
}

bool rsk_boot_late(void)
{
	int state = RSK_BOOT_WAITS;

	if (atomic_compare_exchange_strong(&rsk_boot_state, &state, RSK_BOOT_CLIMBING_ON))
		rsk_boot_climb();
	return rsk_booted;
}

__attribute__((constructor)) static void rsk_boot_constructor(void)
{
	rsk_boot();
}

__attribute__((destructor)) static void rsk_boot_destructor(void)
{
	rsk_boot_end();
}
