/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * first_contact.h - writes the file of connect-time resolution, from which processes learn for
 * which addresses they have to ask before connect() (<rsock/local.h>). local.c calls this.
 */
#ifndef RSK_FIRST_CONTACT_H
#define RSK_FIRST_CONTACT_H

#include <stdbool.h>

#include "conf.h"

/*
 * Opens the file beside the socket @path; makes it if it is missing, readable for all users. It has
 * to be called before the daemon gives up its rights. Returns a descriptor, which the caller owns,
 * or -errno.
 */
int rsk_first_contact_open(const char *path);

/*
 * Writes the configured list to the file, and whether ends in other network namespaces are looked
 * for. Returns 0 or -errno.
 */
int rsk_first_contact_write(int fd, const struct rsk_conf_daemon *settings, bool between);

#endif
