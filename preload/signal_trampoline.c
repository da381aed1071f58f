/* SPDX-License-Identifier: BSD-2-Clause */
/* signal_trampoline.c - the signal trampoline; see signal_trampoline.h. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include <rsock/sys.h>

#include "signal_trampoline.h"
#include "sigdefer.h"
#include "real.h"
#include "touch.h"

#define RSK_SIGNALS 65 /* 1 to 64 */

/*
 * The application's handler and those of its flags that the kernel is not told, in one word, so
 * that a handler on any thread reads a consistent value without a lock. User space ends below bit
 * 56 on all supported machines.
 */
#define RSK_ACT_SIGINFO (1ULL << 63)
#define RSK_ACT_ONCE (1ULL << 62)	/* SA_RESETHAND */
#define RSK_ACT_INTERRUPTS (1ULL << 61) /* no SA_RESTART: blocking calls end with EINTR */
#define RSK_ACT_DEFAULT (1ULL << 60)	/* SIG_DFL: installed for the library's own faults only */
#define RSK_ACT_FLAGS (RSK_ACT_SIGINFO | RSK_ACT_ONCE | RSK_ACT_INTERRUPTS | RSK_ACT_DEFAULT)

typedef void rsk_handler_fn(int sig, siginfo_t *info, void *context);

static _Atomic(uint64_t) rsk_sigactions[RSK_SIGNALS];
static _Atomic(bool) rsk_trampoline_faults_ours; /* rsk_trampoline_faults() has begun */

/*
 * The mask to restore at the end of the section, and one signal that the kernel had no room to
 * queue. Only this thread and its handlers access them.
 */
static __thread uint64_t rsk_trampoline_mask;
static __thread siginfo_t rsk_trampoline_kept;

/* ---- the kernel's 64-bit signal sets ---- */

static uint64_t rsk_sig_bit(int sig)
{
	return 1ULL << (sig - 1);
}

/*
 * Raised by the thread's own instructions; blocked, the kernel would kill instead of calling the
 * handler.
 */
static uint64_t rsk_sig_faults(void)
{
	return rsk_sig_bit(SIGSEGV) | rsk_sig_bit(SIGBUS) | rsk_sig_bit(SIGFPE) |
	       rsk_sig_bit(SIGILL) | rsk_sig_bit(SIGTRAP) | rsk_sig_bit(SIGSYS);
}

static uint64_t *rsk_sig_set(sigset_t *set)
{
	return (uint64_t *)(void *)set; /* the kernel's part comes first */
}

/* A fault or a seccomp trap of the interrupted instruction: it cannot be deferred. */
static bool rsk_sig_is_fault(int sig, const siginfo_t *info)
{
	return (rsk_sig_faults() & rsk_sig_bit(sig)) && info->si_code > 0;
}

/* ---- deferring ---- */

/*
 * Queues @info to this thread once more; the signal is blocked by now. False: the kernel has no
 * room.
 */
static bool rsk_trampoline_queue(siginfo_t *info)
{
	return rsk_sys_rt_tgsigqueueinfo(rsk_sys_getpid(), rsk_sys_gettid(), info->si_signo,
					 info) == 0;
}

/*
 * Blocks all signals but faults, here and in the interrupted context, so that the section continues
 * undisturbed and the number of deferred signals needs no bound. A signal that arrives before the
 * mask is set runs this function on top of this call; it stores a mask of its own in
 * rsk_trampoline_mask, which this call overwrites with the section's.
 */
static void rsk_trampoline_defer(int sig, siginfo_t *info, ucontext_t *context)
{
	uint64_t block = ~rsk_sig_faults() | rsk_sig_bit(sig),
		 *mask = rsk_sig_set(&context->uc_sigmask);
	sigset_t set;

	memset(&set, 0, sizeof(set));
	*rsk_sig_set(&set) = block;
	rsk_sys_rt_sigprocmask(SIG_BLOCK, &set, NULL);
	rsk_trampoline_mask = *mask;
	if (!rsk_trampoline_queue(info))
		memcpy(&rsk_trampoline_kept, info, sizeof(*info));
	*mask |= block;
	rsk_sigdefer_signals++;
}

void rsk_trampoline_pending(void)
{
	siginfo_t kept;
	sigset_t set;

	memset(&set, 0, sizeof(set));
	*rsk_sig_set(&set) = rsk_trampoline_mask;
	rsk_sigdefer_signals = 0;
	kept.si_signo = 0;
	if (rsk_trampoline_kept.si_signo) {
		memcpy(&kept, &rsk_trampoline_kept, sizeof(kept));
		rsk_trampoline_kept.si_signo = 0;
	}
	/* Still no room: send at least the signal number. */
	if (kept.si_signo && !rsk_trampoline_queue(&kept))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), kept.si_signo);
	/*
	 * The deferred signals are delivered here, in the kernel's order, before the call returns.
	 */
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &set, NULL);
}

/*
 * SA_RESETHAND is not given to the kernel: a deferred signal would find the default action.
 * Restores the default action; all else stays as the application gave it, by @act.
 */
static void rsk_trampoline_reset(int sig, uint64_t act)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} k = { 0 };

	RSK_SYS4(SYS_rt_sigaction, sig, 0, &k, RSK_SYS_SIGSET_BYTES);
	k.handler = 0;
	if (!(act & RSK_ACT_SIGINFO))
		k.flags &= ~(uint64_t)SA_SIGINFO;
	if (act & RSK_ACT_ONCE)
		k.flags |= SA_RESETHAND;
	RSK_SYS4(SYS_rt_sigaction, sig, &k, 0, RSK_SYS_SIGSET_BYTES);
}

/*
 * The frame of this thread's innermost handler; 0: there is none. A handler that is left by a jump
 * does not reset it: then that stack has been released, and a later frame is not below it, or is on
 * another stack.
 */
static __thread uintptr_t rsk_trampoline_frame;

#define RSK_TRAMPOLINE_DEEP (8ul << 20)

bool rsk_trampoline_in_handler(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return rsk_trampoline_frame && here <= rsk_trampoline_frame &&
	       rsk_trampoline_frame - here < RSK_TRAMPOLINE_DEEP;
}

/* ---- faults of the library ---- */

static bool rsk_sig_is_ours(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) &&
	       atomic_load_explicit(&rsk_trampoline_faults_ours, memory_order_relaxed);
}

/* An access to the application's memory that faulted (touch.h) continues at its fixup address. */
static bool rsk_trampoline_fixed(int sig, const siginfo_t *info, ucontext_t *context)
{
#if defined(__x86_64__)
	greg_t *pc = &context->uc_mcontext.gregs[REG_RIP];
#else
	unsigned long long *pc = &context->uc_mcontext.pc;
#endif
	uintptr_t on;

	if ((sig != SIGSEGV && sig != SIGBUS) || info->si_code <= 0)
		return false;
	on = rsk_touch_fixup((uintptr_t)*pc);
	if (on)
		*pc = (__typeof__(*pc))on;
	return on;
}

/*
 * The application has the default action. A faulting instruction faults again, and the kernel sees
 * all of it: the registers, the address, its log entry. A signal that does not recur by itself is
 * sent once more; it is blocked until this handler returns.
 */
static void rsk_trampoline_default(int sig, siginfo_t *info, uint64_t act)
{
	rsk_trampoline_reset(sig, act);
	if (rsk_sig_is_fault(sig, info) && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO))
		return;
	if (!rsk_trampoline_queue(info))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), sig);
}

/* SA_RESETHAND: the handler in @act, which is called now, was called for the last time. */
static void rsk_trampoline_once(int sig, uint64_t act)
{
	if (rsk_sig_is_ours(sig))
		atomic_store_explicit(&rsk_sigactions[sig], (act & RSK_ACT_FLAGS) | RSK_ACT_DEFAULT,
				      memory_order_release);
	else
		rsk_trampoline_reset(sig, act);
}

static void rsk_trampoline(int sig, siginfo_t *info, void *context)
{
	uintptr_t outer = rsk_trampoline_frame;
	uint64_t act;

	if (rsk_trampoline_fixed(sig, info, context))
		return;
	if (rsk_sigdefer_depth > 0 && !rsk_sig_is_fault(sig, info)) {
		rsk_trampoline_defer(sig, info, context);
		return;
	}
	act = atomic_load_explicit(&rsk_sigactions[sig], memory_order_acquire);
	if (act & RSK_ACT_DEFAULT) {
		rsk_trampoline_default(sig, info, act);
		return;
	}
	rsk_sigdefer_handled++;
	if (act & RSK_ACT_INTERRUPTS)
		rsk_sigdefer_cut++;
	if (act & RSK_ACT_ONCE)
		rsk_trampoline_once(sig, act);
	/*
	 * All handlers get three arguments, as from the kernel: some old handlers read them without
	 * SA_SIGINFO.
	 */
	rsk_trampoline_frame = (uintptr_t)__builtin_frame_address(0);
	((rsk_handler_fn *)(uintptr_t)(act & ~RSK_ACT_FLAGS))(sig, info, context);
	rsk_trampoline_frame = outer;
}

/* ---- sigaction ---- */

static uint64_t rsk_act_pack(const struct sigaction *act)
{
	return (uint64_t)(uintptr_t)act->sa_handler |
	       (act->sa_flags & SA_SIGINFO ? RSK_ACT_SIGINFO : 0) |
	       (act->sa_flags & (int)SA_RESETHAND ? RSK_ACT_ONCE : 0) |
	       (act->sa_flags & SA_RESTART ? 0 : RSK_ACT_INTERRUPTS) |
	       (act->sa_handler == SIG_DFL ? RSK_ACT_DEFAULT : 0);
}

/* @act as it is given to the kernel. */
static struct sigaction rsk_act_trampoline(const struct sigaction *act)
{
	struct sigaction front = *act;

	front.sa_sigaction = rsk_trampoline;
	front.sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
	return front;
}

/* Converts the kernel's action to the one that the application gave. */
static void rsk_act_show(struct sigaction *old, uint64_t act)
{
	if (old->sa_sigaction != rsk_trampoline)
		return;
	old->sa_handler = (__sighandler_t)(uintptr_t)(act & ~RSK_ACT_FLAGS);
	old->sa_flags &= ~SA_SIGINFO;
	if (act & RSK_ACT_SIGINFO)
		old->sa_flags |= SA_SIGINFO;
	if (act & RSK_ACT_ONCE)
		old->sa_flags |= (int)SA_RESETHAND;
}

int rsk_trampoline_sigaction(int sig, const struct sigaction *act, struct sigaction *old,
			     bool track)
{
	struct sigaction front, was;
	uint64_t before, after = 0;
	bool wrap;

	if (sig <= 0 || sig >= RSK_SIGNALS)
		return rsk_real.sigaction(sig, act, old);
	before = atomic_load_explicit(&rsk_sigactions[sig], memory_order_acquire);
	wrap = act && track && act->sa_handler != SIG_IGN &&
	       (act->sa_handler != SIG_DFL || rsk_sig_is_ours(sig));
	if (wrap) {
		/*
		 * The table is written first: the kernel may call the trampoline as soon as it
		 * knows it.
		 */
		after = rsk_act_pack(act);
		front = rsk_act_trampoline(act);
		act = &front;
		atomic_store_explicit(&rsk_sigactions[sig], after, memory_order_release);
	}
	if (rsk_real.sigaction(sig, act, &was) < 0) {
		if (wrap)
			atomic_compare_exchange_strong(&rsk_sigactions[sig], &after, before);
		return -1;
	}
	/* Another thread was inside rsk_trampoline_faults(), and still saw the default action. */
	if (wrap && !(after & RSK_ACT_DEFAULT) &&
	    (atomic_load_explicit(&rsk_sigactions[sig], memory_order_relaxed) & RSK_ACT_DEFAULT))
		atomic_store_explicit(&rsk_sigactions[sig], after, memory_order_release);
	if (old) {
		rsk_act_show(&was, before);
		*old = was;
	}
	return 0;
}

/*
 * Installs the trampoline for the default action of @sig. A handler that was installed by a raw
 * system call is left alone.
 */
static void rsk_trampoline_take(int sig)
{
	uint64_t before = atomic_load_explicit(&rsk_sigactions[sig], memory_order_acquire), after;
	struct sigaction now, front, was;

	if (rsk_real.sigaction(sig, NULL, &now) < 0 || now.sa_handler != SIG_DFL)
		return;
	after = rsk_act_pack(&now);
	front = rsk_act_trampoline(&now);
	if (!atomic_compare_exchange_strong(&rsk_sigactions[sig], &before, after))
		return; /* another thread is about to install its own handler */
	if (rsk_real.sigaction(sig, &front, &was) == 0 && was.sa_sigaction == rsk_trampoline)
		rsk_real.sigaction(sig, &was, NULL); /* and has done so meanwhile */
}

void rsk_trampoline_faults(void)
{
	int saved = errno;

	if (atomic_exchange(&rsk_trampoline_faults_ours, true))
		return;
	rsk_trampoline_take(SIGSEGV);
	rsk_trampoline_take(SIGBUS);
	rsk_touch_ready = true;
	errno = saved;
}
