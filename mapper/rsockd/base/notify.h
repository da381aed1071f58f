/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.h - tells the service manager how it goes: sd_notify(3)'s protocol, which its manual page says
 * is stable and may be spoken without the library; here it is one datagram.
 */
#ifndef RSK_NOTIFY_H
#define RSK_NOTIFY_H

/* "READY=1\n...". Nobody to be told: nothing happens. 0 or -errno. */
int rsk_notify(const char *state);

#endif
