/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal_trampoline.h - the handler in front of the application's signal handlers.
 *
 * Every handler that the application installs by way of libc is known to the kernel as ours. It
 * calls the application's at once, on the same stack, with the same arguments and mask; only an
 * asynchronous signal that meets a critical section of the engine (sigdefer.h) is put off to the
 * section's end: the kernel keeps it, pending and blocked, until then. See
 * docs/adr/threads-and-signals.md.
 */
#ifndef RSK_TRAMPOLINE_H
#define RSK_TRAMPOLINE_H

#include <signal.h>
#include <stdbool.h>

/*
 * rsk_trampoline_sigaction - sigaction(2) as the application sees it; @old shows its own handlers and
 * flags.
 * @track: false in a vfork child (dispositions of its own, but our table): the handler is
 * installed plain. Returns 0 or -1 and errno. Signal-safe.
 */
int rsk_trampoline_sigaction(int sig, const struct sigaction *act, struct sigaction *old,
			     bool track);

/*
 * host.h's guard_pending: the outermost critical section has ended, let the signals in. Keeps
 * errno.
 */
void rsk_trampoline_pending(void);

/*
 * host.h's streams, and before them the first epoll_ctl(): from now on a fault of an instruction of touch.h's is an
 * answer, also where the application has nothing but the default action. Keeps errno.
 */
void rsk_trampoline_faults(void);

/* Is this thread inside a handler of the application's? */
bool rsk_trampoline_in_handler(void);

#endif
