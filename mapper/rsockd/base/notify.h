/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.h - tells the service manager the state of the daemon by sd_notify(3)'s protocol. The
 * manual page says that the protocol is stable and may be implemented without the library; here it
 * is one datagram.
 */
#ifndef RSK_NOTIFY_H
#define RSK_NOTIFY_H

/*
 * Sends @state ("READY=1\n...") to $NOTIFY_SOCKET; without that variable it does nothing. Returns 0
 * or -errno.
 */
int rsk_notify(const char *state);

#endif
