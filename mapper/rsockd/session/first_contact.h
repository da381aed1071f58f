/* SPDX-License-Identifier: BSD-2-Clause */
/* first_contact.h - the list of addresses for which policy asks first, as processes read it (<rsock/local.h>). */
#ifndef RSK_FIRST_CONTACT_H
#define RSK_FIRST_CONTACT_H

#include "conf.h"

/* The file, made if it is not there, for all to read; -errno. While there are rights to make it. */
int rsk_first_contact_open(const char *path);

/* 0 or -errno. */
int rsk_first_contact_write(int fd, const struct rsk_conf_daemon *settings);

#endif
