/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper.h - processes that do for this one what may take any time: a copy of the caller by a bare clone(2), with no
 * exit signal, so that neither wait() nor a handler of the program sees it.
 *
 * A helper runs on its copy of the caller's stack, whatever locks the caller held: it makes raw system calls only. Its
 * signals are blocked. Its parent reaps it when it starts the next one; init does when the parent has ended.
 * Signal-safe.
 */
#ifndef RSK_HELPER_H
#define RSK_HELPER_H

#include <stdbool.h>

#define RSK_HELPERS 64

/* Is there room for another one among @most? For those that a peer can cause. */
bool rsk_helper_few(int most);

/*
 * It has @a and @b open, which may be the same, and nothing else, when this returns: a copy of any other descriptor
 * would keep a file open that the caller closes next, and registered in its sets of epoll. When @run returns it ends.
 * 0 or -errno. Waits for the other process to have run, HELPER_WAIT_NS at most.
 */
int rsk_helper_start(void (*run)(void *arg), void *arg, const char *name, int a, int b);

#endif
