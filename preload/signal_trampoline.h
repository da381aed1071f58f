/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal_trampoline.h - the signal trampoline: the library's handler, which calls the application's
 * signal handlers. hook_signal.c and boot.c call it.
 *
 * For every handler that the application installs by way of libc, the kernel is given the
 * trampoline. It calls the application's handler at once, on the same stack, with the same
 * arguments and mask; only an asynchronous signal that arrives inside a signal-deferred section of
 * the engine (sigdefer.h) is deferred to the section's end: the kernel keeps it, pending and
 * blocked, until then. See docs/adr/threads-and-signals.md.
 */
#ifndef RSK_TRAMPOLINE_H
#define RSK_TRAMPOLINE_H

#include <signal.h>
#include <stdbool.h>

/*
 * rsk_trampoline_sigaction - sigaction(2) as the application sees it; @old shows its own handlers
 * and flags. @track: false in a vfork child (which has its own dispositions, but shares our table):
 * the handler is installed without the trampoline. Returns 0 or -1 and errno. Signal-safe.
 */
int rsk_trampoline_sigaction(int sig, const struct sigaction *act, struct sigaction *old,
			     bool track);

/*
 * host.h's guard_pending: the outermost signal-deferred section has ended; delivers the deferred
 * signals. Keeps errno.
 */
void rsk_trampoline_pending(void);

/*
 * host.h's streams, also called before the first epoll_ctl(): from now on a fault of an access
 * function of touch.h is caught and returned as its result, even where the application has only the
 * default action. Keeps errno.
 */
void rsk_trampoline_faults(void);

/* Whether this thread is inside a handler of the application. */
bool rsk_trampoline_in_handler(void);

#endif
