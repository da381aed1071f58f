// SPDX-License-Identifier: BSD-2-Clause
/* helper.c - see helper.h. */
#include "helper.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/wait.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include <rsock/sys.h>

#define LAST_FD 0xffffffffu
#define LAST_FD_OLD 65536u /* kernels before 5.9 */
/*
 * Enough for a busy machine. If the helper's close() blocks because another thread has closed the
 * original, the caller goes on after this time.
 */
#define HELPER_WAIT_NS 1000000000ull

/*
 * Process ids; 0: free, -1: being started. Helpers that find no place here are reaped by init after
 * this process has ended.
 */
static _Atomic(int) helpers[RSK_HELPERS];

static void close_but(int a, int b)
{
	unsigned int low = (unsigned int)(a < b ? a : b), high = (unsigned int)(a < b ? b : a);

	if (rsk_sys_close_range(high + 1, LAST_FD, 0) < 0) {
		for (unsigned int i = 0; i < LAST_FD_OLD; i++)
			if (i != low && i != high)
				rsk_sys_close((int)i);
		return;
	}
	if (high > low + 1)
		rsk_sys_close_range(low + 1, high - 1, 0);
	if (low)
		rsk_sys_close_range(0, low - 1, 0);
}

static void reap(void)
{
	for (int i = 0; i < RSK_HELPERS; i++) {
		int pid = atomic_load(&helpers[i]);

		if (pid > 0 && RSK_SYS4(SYS_wait4, pid, NULL, __WCLONE | WNOHANG, NULL) != 0)
			atomic_compare_exchange_strong(&helpers[i], &pid, 0);
	}
}

static _Atomic(int) *take(void)
{
	for (int i = 0; i < RSK_HELPERS; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&helpers[i], &none, -1))
			return &helpers[i];
	}
	return NULL;
}

bool rsk_helper_few(int most)
{
	int n = 0;

	reap();
	for (int i = 0; i < RSK_HELPERS; i++)
		n += atomic_load(&helpers[i]) != 0;
	return n < most;
}

/* Allocates a word that caller and helper share. NULL: no memory, so the caller does not wait. */
static uint32_t *word_new(void)
{
	uint32_t *word = rsk_sys_mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return rsk_sys_is_err(word) ? NULL : word;
}

/*
 * @word is 0, and 1 after the helper's last close. The helper writes it once, release; the waiting
 * caller reads it, acquire.
 */
static void word_set(uint32_t *word)
{
	if (!word)
		return;
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	rsk_sys_futex(word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void word_await(uint32_t *word)
{
	struct timespec until;

	if (!word)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(HELPER_WAIT_NS / 1000000000u);
	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
		int rc = rsk_sys_futex(word, FUTEX_WAIT_BITSET, 0, &until, NULL,
				       FUTEX_BITSET_MATCH_ANY);

		if (rc < 0 && rc != -EINTR && rc != -EAGAIN)
			break;
	}
	rsk_sys_munmap(word, sizeof(*word));
}

int rsk_helper_start(void (*run)(void *arg), void *arg, const char *name, int a, int b)
{
	uint32_t *word = word_new();
	_Atomic(int) *place;
	sigset_t all, old;
	long pid;

	reap();
	place = take();
	memset(&all, 0xff, sizeof(all)); /* also the signals that libc reserves for itself */
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &all, &old);
	pid = RSK_SYS5(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0) {
		RSK_SYS0(SYS_setsid);
		rsk_sys_prctl(PR_SET_NAME, (long)name, 0, 0, 0);
		close_but(a, b);
		word_set(word);
		run(arg);
		rsk_sys_exit_group(0);
	}
	if (pid < 0 && word)
		rsk_sys_munmap(word, sizeof(*word));
	else
		word_await(word);
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &old, NULL);
	if (place)
		atomic_store(place, pid < 0 ? 0 : (int)pid);
	return pid < 0 ? (int)pid : 0;
}
