// SPDX-License-Identifier: BSD-2-Clause
/* first_contact.c - see first_contact.h. */
#include "first_contact.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rsock/local.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pm_msg.h"

int rsk_first_contact_open(const char *path)
{
	char name[256];
	int fd, rc;

	if (snprintf(name, sizeof(name), "%s" RSK_LOCAL_FIRST_CONTACT_SUFFIX, path) >=
	    (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int rsk_first_contact_write(int fd, const struct rsk_conf_daemon *settings, bool between)
{
	struct rsk_local_first_contact f = { .magic = RSK_LOCAL_MAGIC,
					     .n = (uint32_t)settings->n_ask_first,
					     .wait_ms =
						     (uint32_t)(settings->ask_first_ns / 1000000),
					     .flags = between ? RSK_LOCAL_BETWEEN : 0 };
	ssize_t n;

	for (uint32_t i = 0; i < f.n; i++) {
		const struct rsk_conf_prefix *p = &settings->ask_first[i];

		memcpy(f.at[i].ip, p->ip, 16);
		f.at[i].family = p->ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET;
		f.at[i].bits = p->bits;
	}
	f.checksum = XXH3_64bits(&f, offsetof(struct rsk_local_first_contact, checksum));
	n = pwrite(fd, &f, sizeof(f), 0);
	if (n == sizeof(f))
		return 0;
	return n < 0 ? -errno : -ENOSPC;
}
