/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_signal.c - hooks of all functions that install a signal handler; all use
 * rsk_trampoline_sigaction() (signal_trampoline.h).
 */
#include <stdatomic.h>

#define RSK_EXPORT_signal 1
#include "export.h"
#include "signal_trampoline.h"
#include "hook.h"

/* Values set by siginterrupt(), for signal(): bit sig - 1. */
static _Atomic(uint64_t) rsk_sigintr;

int rsk_hook_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	/*
	 * Another library's constructor installs a handler before our constructor runs: it has to
	 * wait for the end of signal-deferred sections as any other.
	 */
	if (!rsk_boot_follows)
		rsk_boot();
	if (!rsk_boot_follows)
		return rsk_real.sigaction(sig, act, old);
	return rsk_trampoline_sigaction(sig, act, old, !rsk_direct);
}

static bool rsk_sig_valid(int sig)
{
	return sig >= 1 && sig < _NSIG;
}

/*
 * The simple forms: one handler, one flag word, a mask of @sig alone or of nothing. Returns the
 * old handler.
 */
static __sighandler_t rsk_signal(int sig, __sighandler_t handler, int flags, bool mask_itself)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	sigemptyset(&act.sa_mask);
	if (mask_itself)
		sigaddset(&act.sa_mask, sig);
	if (rsk_hook_sigaction(sig, &act, &old) < 0)
		return SIG_ERR;
	return old.sa_handler;
}

__sighandler_t rsk_hook_signal(int sig, __sighandler_t handler)
{
	bool interrupts;

	if (handler == SIG_ERR || !rsk_sig_valid(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	interrupts = atomic_load(&rsk_sigintr) >> (sig - 1) & 1;
	return rsk_signal(sig, handler, interrupts ? 0 : SA_RESTART, true);
}

__sighandler_t rsk_hook___sysv_signal(int sig, __sighandler_t handler)
{
	if (handler == SIG_ERR || !rsk_sig_valid(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return rsk_signal(sig, handler, (int)(SA_RESETHAND | SA_NODEFER | SA_INTERRUPT), false);
}

int rsk_hook_siginterrupt(int sig, int flag)
{
	struct sigaction act;

	if (rsk_hook_sigaction(sig, NULL, &act) < 0)
		return -1;
	if (flag) {
		atomic_fetch_or(&rsk_sigintr, 1ULL << (sig - 1));
		act.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&rsk_sigintr, ~(1ULL << (sig - 1)));
		act.sa_flags |= SA_RESTART;
	}
	return rsk_hook_sigaction(sig, &act, NULL);
}

/* XSI: SIG_HOLD blocks; anything else installs and unblocks. Returns SIG_HOLD if it was blocked. */
__sighandler_t rsk_hook_sigset(int sig, __sighandler_t disp)
{
	struct sigaction now;
	__sighandler_t old;
	sigset_t set, was;

	if (disp == SIG_ERR || !rsk_sig_valid(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&set);
	sigaddset(&set, sig);
	if (disp == SIG_HOLD) {
		if (sigprocmask(SIG_BLOCK, &set, &was) < 0)
			return SIG_ERR;
		if (sigismember(&was, sig))
			return SIG_HOLD;
		return rsk_hook_sigaction(sig, NULL, &now) < 0 ? SIG_ERR : now.sa_handler;
	}
	old = rsk_signal(sig, disp, 0, false);
	if (old == SIG_ERR || sigprocmask(SIG_UNBLOCK, &set, &was) < 0)
		return SIG_ERR;
	return sigismember(&was, sig) ? SIG_HOLD : old;
}
