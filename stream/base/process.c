// SPDX-License-Identifier: BSD-2-Clause
/* process.c - process state, clocks and the library's own descriptors: see process.h. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include <rsock/clock.h>
#include <rsock/reason.h>
#include <rsock/splitmix.h>
#include <rsock/sys.h>

_Atomic(int) rsk_stopped;
_Atomic(bool) rsk_kernel_only_set;
__thread uint32_t rsk_kernel_calls;
const struct rsk_host *rsk_host;
static int pid_of_start;
int *rsk_pid_word = &pid_of_start;

static _Atomic(int) done_pid;

void rsk_process_init(void)
{
	rsk_pid = rsk_sys_getpid();
}

bool rsk_process_can_load(void)
{
	return _r_debug.r_state == RT_CONSISTENT;
}

void rsk_process_wiped(int *word)
{
	*word = rsk_pid;
	rsk_pid_word = word;
}

bool rsk_exiting(void)
{
	return atomic_load(&done_pid) == rsk_pid;
}

bool rsk_exit_begins(void)
{
	int seen = atomic_load(&done_pid);

	return seen != rsk_pid && atomic_compare_exchange_strong(&done_pid, &seen, rsk_pid);
}

uint64_t rsk_now_ns(void)
{
	return rsk_monotonic_ns();
}

uint64_t rsk_tick_ns(void)
{
	return rsk_time_ns(CLOCK_MONOTONIC_COARSE);
}

/* ---- own descriptors: high numbers, so that the application's stay low ---- */

/* Below this limit all numbers are left to the application. */
#define FD_LIMIT_LEAST 256

/* The lowest number for an own descriptor, by the current limit; -EMFILE: the limit is too low. */
static int own_base_now(void)
{
	struct rlimit lim = { .rlim_cur = 1024 };

	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < FD_LIMIT_LEAST)
		return -EMFILE;
	if (lim.rlim_cur > RSK_FD_TABLE_MOST)
		lim.rlim_cur = RSK_FD_TABLE_MOST;
	return (int)(lim.rlim_cur - lim.rlim_cur / 4);
}

/*
 * The lowest number used last time: a hint, since the kernel reports when it is too high; 0: not
 * known.
 */
static _Atomic(int) own_base;

static int copy_up(int fd, int base)
{
	int high = rsk_sys_fcntl(fd, F_DUPFD_CLOEXEC, base);

	if (high < 0)
		return high == -EINVAL ? -EMFILE : high;
	if ((uint32_t)high >= rsk_fdtab.size) {
		rsk_sys_close(high);
		return -EMFILE;
	}
	rsk_fd_put(high, RSK_FD_OWN);
	return high;
}

static int copy_by_limit(int fd)
{
	int base = own_base_now();

	if (base < 0)
		return base;
	atomic_store_explicit(&own_base, base, memory_order_relaxed);
	return copy_up(fd, base);
}

int rsk_own_fd_copy(int fd)
{
	int base = atomic_load_explicit(&own_base, memory_order_relaxed);
	int high = fd < 0 ? fd : -EMFILE;

	if (fd >= 0 && base)
		high = copy_up(fd, base);
	/* All used, or the limit has been lowered since. */
	return fd >= 0 && high == -EMFILE ? copy_by_limit(fd) : high;
}

/* The descriptor is kept for long, so it has to be above the application's by the current limit. */
int rsk_own_fd(int fd)
{
	int high = fd < 0 ? fd : copy_by_limit(fd);

	if (fd >= 0)
		rsk_sys_close(fd);
	return high;
}

void rsk_own_close(int fd)
{
	if (fd < 0 || !rsk_fd_ours(fd))
		return;
	rsk_fd_put(fd, 0);
	rsk_sys_close(fd);
}

int rsk_random(void *to, size_t len)
{
	int none = 0;
	ssize_t n;

	do
		n = rsk_sys_getrandom(to, len, 0);
	while (n == -EINTR || (n >= 0 && (size_t)n != len));
	if (n >= 0)
		return 0;
	atomic_compare_exchange_strong(&rsk_stopped, &none, RSK_REASON_UNSUPPORTED);
	return (int)n;
}

/*
 * Numbers that differ, from those that the kernel has given this program at its start: for a
 * pairing that is under way already; no other is begun.
 */
static uint64_t substitute(void)
{
	static _Atomic(uint64_t) count;
	uint64_t start[2] = { 0 }, number = atomic_fetch_add(&count, 1) + 1;
	const void *given = (const void *)getauxval(AT_RANDOM); /* NOLINT */

	if (given)
		memcpy(start, given, sizeof(start));
	start[0] ^= rsk_now_ns() ^ ((uint64_t)rsk_pid << 32);
	start[0] += number * RSK_SPLITMIX_STEP;
	return rsk_splitmix_mix(rsk_splitmix_mix(start[0]) ^ start[1]);
}

uint64_t rsk_random64(void)
{
	uint64_t v;

	do
		if (rsk_random(&v, sizeof(v)) < 0)
			v = substitute();
	while (!v);
	return v;
}
