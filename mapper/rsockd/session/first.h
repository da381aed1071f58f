/* SPDX-License-Identifier: BSD-2-Clause */
/* first.h - the list of addresses for which policy asks first, as processes read it (<rsock/local.h>). */
#ifndef RSK_FIRST_H
#define RSK_FIRST_H

#include "conf.h"

/* The file, made if it is not there, for all to read; -errno. While there are rights to make it. */
int rsk_first_open(const char *path);

/* 0 or -errno. */
int rsk_first_write(int fd, const struct rsk_conf_daemon *settings);

#endif
