/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox.h - what the daemon gives up once its sockets are open: root's identity and all capabilities, gaining any
 * again, and every system call that it has no use for. A caught daemon can speak its protocol, and little else.
 */
#ifndef RSK_SANDBOX_H
#define RSK_SANDBOX_H

#include <stdbool.h>

/*
 * As that user and its group, if we are root; no capability is left in any set, and none can be had again
 * (no_new_privs). @user NULL: stay who we are. 0; -ENOENT: no such user; -errno. Anything but 0: do not go on.
 */
int rsk_sandbox_drop(const char *user);

/* From here on only the calls in the table of sandbox.c, for this thread; others fail with EPERM. 0 or -errno. */
int rsk_sandbox_filter(void);

#endif
