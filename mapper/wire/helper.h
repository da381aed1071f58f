/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper.h - helper processes for calls that may take any time. A helper is a copy of the caller
 * made by a bare clone(2) without exit signal, so that neither wait() nor a signal handler of the
 * program sees it. Used by fdmsg.c and the library's relay. Signal-safe.
 *
 * A helper runs on its copy of the caller's stack, and locks may be held in it, so it makes raw
 * system calls only. Its signals are blocked. The parent reaps it when it starts the next one; init
 * reaps it when the parent has ended.
 */
#ifndef RSK_HELPER_H
#define RSK_HELPER_H

#include <stdbool.h>

#define RSK_HELPERS 64

/*
 * True if fewer than @most helpers are running. To be asked before starting a helper that a peer
 * can cause.
 */
bool rsk_helper_few(int most);

/*
 * Starts a helper that runs @run and ends when it returns. When this function returns, the helper
 * has only @a and @b open (they may be the same): a copy of any other descriptor would keep a file
 * open that the caller closes next, and registered in the caller's epoll sets. Returns 0 or -errno.
 * Waits until the helper has run so far, at most HELPER_WAIT_NS.
 */
int rsk_helper_start(void (*run)(void *arg), void *arg, const char *name, int a, int b);

#endif
