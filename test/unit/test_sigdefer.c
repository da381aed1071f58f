/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sigdefer.c - tests the signal trampoline in front of the application's handlers, with real
 * signals. A signal that arrives in a signal-deferred section runs at its end, once and complete;
 * everything else is as without the trampoline.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <sys/mman.h>
#include <unistd.h>

#include "signal_trampoline.h"
#include "sigdefer.h"
#include "real.h"

/* What the trampoline needs from the rest of the library. */
struct rsk_real rsk_real;
__thread uint32_t rsk_direct;
static const struct rsk_host host = { .guard_pending = rsk_trampoline_pending };
const struct rsk_host *rsk_host = &host;

static void setup(void)
{
	rsk_real.sigaction = sigaction;
	rsk_sigdefer_depth = rsk_sigdefer_signals = rsk_sigdefer_cut = 0;
}

TestSuite(guard, .init = setup, .timeout = 20);

/* ---- handlers that record what they saw ---- */

struct seen {
	int sig, value, code;
	uint32_t depth;
};

static struct seen seen[4096];
static volatile size_t n_seen;

static void note(int sig, siginfo_t *info, void *context)
{
	struct seen *s = &seen[n_seen++];

	s->sig = sig;
	s->code = info ? info->si_code : 0;
	s->value = info ? info->si_value.sival_int : 0;
	s->depth = rsk_sigdefer_depth;
	cr_assert(context != NULL);
}

static void note_plain(int sig)
{
	seen[n_seen++].sig = sig;
}

static void install(int sig, int flags)
{
	struct sigaction act = { .sa_flags = flags };

	sigemptyset(&act.sa_mask);
	if (flags & SA_SIGINFO)
		act.sa_sigaction = note;
	else
		act.sa_handler = note_plain;
	cr_assert_eq(rsk_trampoline_sigaction(sig, &act, NULL, true), 0);
}

static void queue(int sig, int value)
{
	union sigval v = { .sival_int = value };

	cr_assert_eq(pthread_sigqueue(pthread_self(), sig, v), 0);
}

static sigset_t mask_now(void)
{
	sigset_t set;

	cr_assert_eq(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
	return set;
}

/* ---- outside of a section ---- */

Test(guard, handler_runs_at_once)
{
	install(SIGUSR1, SA_SIGINFO);
	queue(SIGUSR1, 7);
	cr_assert_eq(n_seen, 1);
	cr_assert_eq(seen[0].sig, SIGUSR1);
	cr_assert_eq(seen[0].value, 7);
	cr_assert_eq(seen[0].code, SI_QUEUE);
}

Test(guard, plain_handler_runs_at_once)
{
	install(SIGUSR1, 0);
	raise(SIGUSR1);
	cr_assert_eq(n_seen, 1);
}

Test(guard, only_interrupting_handlers_are_counted)
{
	install(SIGUSR1, SA_SIGINFO | SA_RESTART);
	queue(SIGUSR1, 1);
	cr_assert_eq(rsk_sigdefer_cut, 0);
	install(SIGUSR1, SA_SIGINFO);
	queue(SIGUSR1, 1);
	cr_assert_eq(rsk_sigdefer_cut, 1);
}

/* ---- inside ---- */

Test(guard, signal_waits_for_the_outermost_end)
{
	install(SIGUSR1, SA_SIGINFO);
	rsk_sigdefer_enter();
	rsk_sigdefer_enter();
	queue(SIGUSR1, 42);
	cr_assert_eq(n_seen, 0);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, 0);
	errno = EXDEV;
	rsk_sigdefer_exit();
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(n_seen, 1);
	cr_assert_eq(seen[0].value, 42);
	cr_assert_eq(seen[0].code, SI_QUEUE);
	cr_assert_eq(seen[0].depth, 0);
	cr_assert_eq(rsk_sigdefer_signals, 0);
}

/*
 * The kernel keeps realtime signals in order, each with its value; the library must not lose or
 * reorder one.
 */
Test(guard, many_signals_come_whole_and_in_order)
{
	enum {
		MANY = 500
	};

	install(SIGRTMIN + 1, SA_SIGINFO);
	rsk_sigdefer_enter();
	for (int i = 0; i < MANY; i++)
		queue(SIGRTMIN + 1, i);
	cr_assert_eq(n_seen, 0);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, MANY);
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(seen[i].value, i);
}

Test(guard, different_signals_all_come)
{
	int sigs[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGWINCH, SIGRTMIN + 3, SIGRTMAX };
	const size_t n = sizeof(sigs) / sizeof(sigs[0]);

	for (size_t i = 0; i < n; i++)
		install(sigs[i], SA_SIGINFO | (i & 1 ? SA_NODEFER : 0));
	rsk_sigdefer_enter();
	for (size_t i = 0; i < n; i++)
		queue(sigs[i], (int)i);
	cr_assert_eq(n_seen, 0);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, n);
	for (size_t i = 0; i < n; i++) {
		size_t times = 0;

		for (size_t j = 0; j < n; j++)
			times += seen[j].sig == sigs[i];
		cr_assert_eq(times, 1);
	}
}

Test(guard, mask_is_as_before)
{
	sigset_t before, after, usr2;

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	before = mask_now();
	install(SIGUSR1, SA_SIGINFO);
	rsk_sigdefer_enter();
	queue(SIGUSR1, 1);
	rsk_sigdefer_exit();
	after = mask_now();
	cr_assert_eq(n_seen, 1);
	for (int sig = 1; sig < 65; sig++)
		cr_assert_eq(sigismember(&before, sig), sigismember(&after, sig), "signal %d", sig);
}

/* The kernel has no room to queue the signal: it must be delivered all the same. */
Test(guard, no_room_to_queue)
{
	struct rlimit none = { 0, 0 };

	install(SIGUSR1, SA_SIGINFO);
	rsk_sigdefer_enter();
	cr_assert_eq(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	raise(SIGUSR1);
	cr_assert_eq(n_seen, 0);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, 1);
}

static sigjmp_buf out;

static void leave(int sig, siginfo_t *info, void *context)
{
	n_seen++;
	siglongjmp(out, 1);
}

/* A fault in the section itself cannot wait: the instruction would be repeated for ever. */
Test(guard, fault_runs_at_once)
{
	struct sigaction act = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_NODEFER };
	volatile int *nobodys = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq((void *)nobodys, MAP_FAILED);
	sigemptyset(&act.sa_mask);
	cr_assert_eq(rsk_trampoline_sigaction(SIGSEGV, &act, NULL, true), 0);
	rsk_sigdefer_enter();
	if (sigsetjmp(out, 1) == 0) {
		*nobodys = 1;
		cr_assert_fail("no fault");
	}
	cr_assert_eq(n_seen, 1);
	rsk_sigdefer_depth = 0;
}

/* The same signal sent by a process is no fault. */
Test(guard, sent_segv_waits)
{
	install(SIGSEGV, SA_SIGINFO);
	rsk_sigdefer_enter();
	queue(SIGSEGV, 1);
	cr_assert_eq(n_seen, 0);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, 1);
}

/* ---- what sigaction shows, and once-only handlers ---- */

Test(guard, old_action_is_the_applications)
{
	struct sigaction old,
		act = { .sa_handler = note_plain, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };

	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGWINCH);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, &act, &old, true), 0);
	cr_assert(old.sa_handler == SIG_DFL);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, NULL, &old, true), 0);
	cr_assert(old.sa_handler == note_plain);
	cr_assert_eq(old.sa_flags & (int)(SA_RESETHAND | SA_RESTART | SA_SIGINFO),
		     (int)(SA_RESETHAND | SA_RESTART));
	cr_assert_eq(sigismember(&old.sa_mask, SIGWINCH), 1);
	/* One struct for both arguments, as in programs that restore the former action. */
	old.sa_handler = SIG_IGN;
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, &old, &old, true), 0);
	cr_assert(old.sa_handler == note_plain);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, NULL, &old, true), 0);
	cr_assert(old.sa_handler == SIG_IGN);
}

Test(guard, errors_are_the_kernels)
{
	struct sigaction act = { .sa_handler = note_plain }, old;

	errno = 0;
	cr_assert_eq(rsk_trampoline_sigaction(SIGKILL, &act, NULL, true), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(rsk_trampoline_sigaction(0, &act, NULL, true), -1);
	cr_assert_eq(rsk_trampoline_sigaction(65, NULL, &old, true), -1);
	cr_assert_eq(rsk_trampoline_sigaction(-1, NULL, &old, true), -1);
}

Test(guard, resethand_runs_once_even_when_put_off)
{
	struct sigaction old;

	/* the default action is to ignore it */
	install(SIGWINCH, (int)(SA_SIGINFO | SA_RESETHAND));
	rsk_sigdefer_enter();
	raise(SIGWINCH);
	rsk_sigdefer_exit();
	cr_assert_eq(n_seen, 1);
	raise(SIGWINCH);
	cr_assert_eq(n_seen, 1);
	cr_assert_eq(rsk_trampoline_sigaction(SIGWINCH, NULL, &old, true), 0);
	cr_assert(old.sa_handler == SIG_DFL);
}

/* In a vfork child: the kernel gets the plain handler, and the table stays the parent's. */
Test(guard, untracked_is_plain)
{
	struct sigaction act = { .sa_handler = note_plain }, kernel;

	install(SIGUSR1, SA_SIGINFO);
	sigemptyset(&act.sa_mask);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR2, &act, NULL, false), 0);
	cr_assert_eq(sigaction(SIGUSR2, NULL, &kernel), 0);
	cr_assert(kernel.sa_handler == note_plain);
}

Test(guard, onstack_and_mask_are_kept)
{
	static char stack[65536];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction kernel,
		act = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	cr_assert_eq(sigaltstack(&alt, NULL), 0);
	sigfillset(&act.sa_mask);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, &act, NULL, true), 0);
	cr_assert_eq(sigaction(SIGUSR1, NULL, &kernel), 0);
	cr_assert(kernel.sa_flags & SA_ONSTACK);
	cr_assert_eq(sigismember(&kernel.sa_mask, SIGUSR2), 1);
	raise(SIGUSR1);
	cr_assert_eq(n_seen, 1);
}

/* ---- a storm of signals ---- */

#define STORM 2000

static volatile sig_atomic_t storm_in, storm_wrong, storm_total;

static void storm_handler(int sig, siginfo_t *info, void *context)
{
	if (storm_in || rsk_sigdefer_depth)
		storm_wrong = 1;
	storm_total++;
}

struct storm {
	pthread_t target;
	volatile int stop;
	unsigned long sent;
};

static void *storm_main(void *p)
{
	struct storm *s = p;

	/*
	 * A limit: if it sends faster than signals are handled, the other thread makes no progress.
	 */
	while (!s->stop && storm_total < STORM)
		if (pthread_kill(s->target, s->sent % 2 ? SIGUSR1 : SIGRTMIN + 2) == 0)
			s->sent++;
	return NULL;
}

/*
 * Another thread sends as fast as it can while this one enters and leaves sections. Not with
 * SA_NODEFER: handlers would pile up until the stack overflows, with or without the library.
 */
Test(guard, storm_never_runs_inside)
{
	struct storm s = { .target = pthread_self() };
	struct sigaction act = { .sa_sigaction = storm_handler, .sa_flags = SA_SIGINFO };
	sigset_t before = mask_now(), after;
	pthread_t thread;

	sigemptyset(&act.sa_mask);
	cr_assert_eq(rsk_trampoline_sigaction(SIGUSR1, &act, NULL, true), 0);
	cr_assert_eq(rsk_trampoline_sigaction(SIGRTMIN + 2, &act, NULL, true), 0);
	cr_assert_eq(pthread_create(&thread, NULL, storm_main, &s), 0);
	while (storm_total < STORM) {
		rsk_sigdefer_enter();
		storm_in = 1;
		for (int i = 0; i < 200; i++)
			atomic_signal_fence(memory_order_seq_cst);
		storm_in = 0;
		rsk_sigdefer_exit();
	}
	s.stop = 1;
	pthread_join(thread, NULL);
	cr_assert_eq(storm_wrong, 0);
	after = mask_now();
	for (int sig = 1; sig < 65; sig++)
		cr_assert_eq(sigismember(&before, sig), sigismember(&after, sig), "signal %d", sig);
}
