/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork.c - one mechanism for every fork (docs/adr/fork-and-exec.md); see fork.h.
 *
 * libc's fork(), forkpty(), and all other functions that fork inside libc run pthread_atfork
 * handlers, by which the engine is called. As they are registered at boot, before those of almost
 * all other libraries, they run last before the fork and first after it, so other libraries'
 * handlers may use their sockets. Only _Fork() and raw clones run no handlers; their hooks call
 * rsk_fork_before() and rsk_fork_after() themselves.
 */
#include <errno.h>
#include <pthread.h>

#include "boot.h"
#include "engine.h"
#include "fork.h"
#include "real.h"

/*
 * A parent's handler does not get the result of the fork. libc leaves errno alone if it succeeded,
 * so 0, set by rsk_fork_libc(), means success; with any other value (another handler may have
 * changed it) rsk_fork_libc(), which knows the result, calls the engine. Per thread: any thread may
 * fork.
 */
static __thread bool rsk_fork_knows; /* inside rsk_fork_libc() */
/* rsk_fork_parent() has yet to be called. */
static __thread bool rsk_fork_untold;

static bool rsk_fork_concerns(void)
{
	return rsk_booted && !rsk_direct;
}

static void rsk_atfork_prepare(void)
{
	if (rsk_fork_concerns())
		rsk_fork_prepare();
}

static void rsk_atfork_parent(void)
{
	if (!rsk_fork_concerns())
		return;
	if (rsk_fork_knows && errno != 0)
		rsk_fork_untold = true;
	else
		rsk_fork_parent(true);
}

static void rsk_atfork_child(void)
{
	rsk_boot_forked();
	if (rsk_fork_concerns())
		rsk_fork_child(true);
}

int rsk_fork_boot(void)
{
	return -pthread_atfork(rsk_atfork_prepare, rsk_atfork_parent, rsk_atfork_child);
}

pid_t rsk_fork_libc(void)
{
	int saved = errno;
	pid_t pid;

	rsk_fork_knows = true;
	rsk_fork_untold = false;
	errno = 0;
	pid = rsk_real.fork();
	rsk_fork_knows = false;
	if (pid != 0 && rsk_fork_untold) {
		rsk_fork_untold = false;
		rsk_fork_parent(pid > 0);
	}
	if (pid >= 0)
		errno = saved;
	return pid;
}

void rsk_fork_before(void)
{
	rsk_atfork_prepare();
}

void rsk_fork_after(pid_t pid)
{
	if (!rsk_fork_concerns())
		return;
	if (pid == 0)
		rsk_fork_child(false);
	else
		rsk_fork_parent(pid > 0);
}
