/* SPDX-License-Identifier: BSD-2-Clause */
/* signal_trampoline.c - the handler in front of the application's (signal_trampoline.h). */
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
 * The application's handler and what of its flags the kernel is not told, in one word, so that a
 * handler on any thread reads a whole one without a lock. User space ends below bit 56 on every
 * machine we know.
 */
#define RSK_ACT_SIGINFO (1ULL << 63)
#define RSK_ACT_ONCE (1ULL << 62)	/* SA_RESETHAND */
#define RSK_ACT_INTERRUPTS (1ULL << 61) /* no SA_RESTART: blocking calls end with EINTR */
#define RSK_ACT_DEFAULT (1ULL << 60)	/* SIG_DFL: we are there for ourselves alone */
#define RSK_ACT_FLAGS (RSK_ACT_SIGINFO | RSK_ACT_ONCE | RSK_ACT_INTERRUPTS | RSK_ACT_DEFAULT)

typedef void rsk_handler_fn(int sig, siginfo_t *info, void *context);

static _Atomic(uint64_t) rsk_sigactions[RSK_SIGNALS];
static _Atomic(bool) rsk_trampoline_faults_ours; /* rsk_trampoline_faults() has begun */

/*
 * What to put back at the end of the section, and one signal that the kernel had no room to
 * queue. Only this thread and its handlers touch them.
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

/* A fault or a seccomp trap of this very instruction: it cannot wait. */
static bool rsk_sig_is_fault(int sig, const siginfo_t *info)
{
	return (rsk_sig_faults() & rsk_sig_bit(sig)) && info->si_code > 0;
}

/* ---- putting off ---- */

/* Queues @info to this thread once more, blocked as it is now. False: the kernel has no room. */
static bool rsk_trampoline_queue(siginfo_t *info)
{
	return rsk_sys_rt_tgsigqueueinfo(rsk_sys_getpid(), rsk_sys_gettid(), info->si_signo,
					 info) == 0;
}

/*
 * Everything but faults is blocked, here and in the context that we interrupted, so that the
 * section goes on undisturbed and the number of signals put off needs no bound of ours. A signal
 * that comes before the mask is set runs this on top of us; it leaves a mask of its own in
 * rsk_trampoline_mask, ours overwrites it, and ours is the one of the section.
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
	/* Still no room: at least the number arrives. */
	if (kept.si_signo && !rsk_trampoline_queue(&kept))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), kept.si_signo);
	/* Here they come, in the kernel's order, before the call returns. */
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &set, NULL);
}

/*
 * SA_RESETHAND is kept from the kernel: a signal that is put off would find the default action. All but the handler
 * stays as the application gave it, by @act.
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
 * Where the frame of the innermost handler of this thread is; 0: there is none. One that was left by a jump leaves it
 * behind: then the stack has been given back, and a later frame is not below it, or is on another stack.
 */
static __thread uintptr_t rsk_trampoline_frame;

#define RSK_TRAMPOLINE_DEEP (8ul << 20)

bool rsk_trampoline_in_handler(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return rsk_trampoline_frame && here <= rsk_trampoline_frame &&
	       rsk_trampoline_frame - here < RSK_TRAMPOLINE_DEEP;
}

/* ---- faults of our own ---- */

static bool rsk_sig_is_ours(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) &&
	       atomic_load_explicit(&rsk_trampoline_faults_ours, memory_order_relaxed);
}

/* A look at the application's memory, which is not there (touch.h): it goes on where that is said. */
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
 * The application wants the default action. The instruction faults again, and the kernel has all of it: the registers,
 * the address, its log. What does not come again by itself is sent once more; it is blocked until we return.
 */
static void rsk_trampoline_default(int sig, siginfo_t *info, uint64_t act)
{
	rsk_trampoline_reset(sig, act);
	if (rsk_sig_is_fault(sig, info) && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO))
		return;
	if (!rsk_trampoline_queue(info))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), sig);
}

/* SA_RESETHAND: @act, which is called now, was the last. */
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
	if (act & RSK_ACT_INTERRUPTS)
		rsk_sigdefer_cut++;
	if (act & RSK_ACT_ONCE)
		rsk_trampoline_once(sig, act);
	/*
	 * Three arguments for all, as the kernel does: some old handlers look at them without
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

/* @act as the kernel is to know it. */
static struct sigaction rsk_act_trampoline(const struct sigaction *act)
{
	struct sigaction front = *act;

	front.sa_sigaction = rsk_trampoline;
	front.sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
	return front;
}

/* What the kernel holds, as the application gave it. */
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
		/* The table first: the kernel may call us from the moment it knows. */
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
	/* Another thread was at rsk_trampoline_faults(), and saw the default action still. */
	if (wrap && !(after & RSK_ACT_DEFAULT) &&
	    (atomic_load_explicit(&rsk_sigactions[sig], memory_order_relaxed) & RSK_ACT_DEFAULT))
		atomic_store_explicit(&rsk_sigactions[sig], after, memory_order_release);
	if (old) {
		rsk_act_show(&was, before);
		*old = was;
	}
	return 0;
}

/* In front of the default action of @sig. What was installed by a raw system call is left alone. */
static void rsk_trampoline_take(int sig)
{
	uint64_t before = atomic_load_explicit(&rsk_sigactions[sig], memory_order_acquire), after;
	struct sigaction now, front, was;

	if (rsk_real.sigaction(sig, NULL, &now) < 0 || now.sa_handler != SIG_DFL)
		return;
	after = rsk_act_pack(&now);
	front = rsk_act_trampoline(&now);
	if (!atomic_compare_exchange_strong(&rsk_sigactions[sig], &before, after))
		return; /* another thread is about to install its own */
	if (rsk_real.sigaction(sig, &front, &was) == 0 && was.sa_sigaction == rsk_trampoline)
		rsk_real.sigaction(sig, &was, NULL); /* and has, meanwhile */
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
