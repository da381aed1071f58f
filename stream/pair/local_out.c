// SPDX-License-Identifier: BSD-2-Clause
/* local_out.c - see local_out.h. */
#include "local_out.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <rsock/sys.h>

#include "local.h"

#define ROOM 4096u /* messages */

static int keep(struct rsk_local_out *o, const struct rsk_local_msg *m)
{
	void *p;

	if (!o->at) {
		p = rsk_sys_mmap(NULL, ROOM * sizeof(*o->at), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (rsk_sys_is_err(p))
			return -EAGAIN;
		o->at = p;
	}
	if (o->n == ROOM)
		return -EAGAIN;
	o->at[(o->first + o->n++) % ROOM] = *m;
	return 0;
}

int rsk_local_out_say(struct rsk_local_out *o, int to, struct rsk_local_msg *m, int fd)
{
	int rc = rsk_local_out_flush(o, to);

	if (rc == 0)
		rc = o->n ? -EAGAIN : rsk_local_msg_send(to, m, fd);
	return rc == -EAGAIN && fd < 0 ? keep(o, m) : rc;
}

int rsk_local_out_flush(struct rsk_local_out *o, int to)
{
	while (o->n) {
		int rc = rsk_local_msg_send(to, &o->at[o->first], -1);

		if (rc < 0)
			return rc == -EAGAIN ? 0 : rc;
		o->first = (o->first + 1) % ROOM;
		o->n--;
	}
	return 0;
}

void rsk_local_out_clear(struct rsk_local_out *o)
{
	o->n = 0;
}

/* ---- the connection ---- */

int rsk_local_dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(rsk_knobs.daemon);
	int fd, rc;

	if (!len || len >= sizeof(sa.sun_path))
		return -EINVAL;
	memcpy(sa.sun_path, rsk_knobs.daemon, len);
	fd = rsk_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	rc = rsk_sys_connect(fd, &sa, sizeof(sa));
	if (rc < 0) {
		rsk_sys_close(fd);
		return rc;
	}
	return rsk_own_fd(fd);
}
