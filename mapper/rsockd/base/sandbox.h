/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox.h - drops the daemon's rights when its sockets are open: root's identity, all
 * capabilities, the right to gain any again, and every system call that it does not need. A daemon
 * that an attacker controls can then do little more than speak its protocol.
 */
#ifndef RSK_SANDBOX_H
#define RSK_SANDBOX_H

#include <stdbool.h>

/*
 * Changes to user @user and that user's group if the process is root (@user NULL: the identity
 * stays), empties all capability sets, and sets no_new_privs so that no capability can be gained
 * again. Returns 0; -ENOENT if there is no such user; or -errno. The caller must not go on after an
 * error.
 */
int rsk_sandbox_drop(const char *user);

/*
 * Installs the seccomp filter for the calling thread: from here on it may make only the system
 * calls in the table of sandbox.c; others fail with EPERM. Returns 0 or -errno.
 */
int rsk_sandbox_filter(void);
/* The same, for a daemon of a cluster: also what libcurl needs. */
int rsk_sandbox_filter_cluster(void);

#endif
