// SPDX-License-Identifier: BSD-2-Clause
/* load.c - see load.h. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define EACH_NS 1000000000ull

int rsk_load_open(struct rsk_load *l)
{
	*l = (struct rsk_load){ .fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
				.processors = sysconf(_SC_NPROCESSORS_ONLN) };
	if (l->fd < 0)
		return -errno;
	return l->processors > 0 ? 0 : -ENOSYS;
}

void rsk_load_close(struct rsk_load *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

int rsk_load_check(struct rsk_load *l, uint64_t now_ns, double *load)
{
	char text[64];
	ssize_t n;

	if (l->read_ns && now_ns - l->read_ns < EACH_NS)
		return 0;
	errno = 0;
	if (lseek(l->fd, 0, SEEK_SET) < 0 || (n = read(l->fd, text, sizeof(text) - 1)) <= 0)
		return errno ? -errno : -EIO;
	text[n] = 0;
	l->read_ns = now_ns;
	*load = strtod(text, NULL) / (double)l->processors;
	return 1;
}
