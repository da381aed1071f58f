// SPDX-License-Identifier: BSD-2-Clause
/*
 * contexts.c - moves the module's descriptors away from the application's, and keeps a table of the
 * devices that librdmacm has open. Called by the other files of librsock-verbs.so, on the progress
 * thread.
 *
 * librdmacm opens each device to which an address is bound, and keeps it open as long as it finds
 * it. The descriptors of a device are moved once in the lifetime of the process, even if the module
 * is opened anew. They are closed when the device goes, whether it had rails (dev.c) or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <rsock/sys.h>

#include "dev.h"

#define MOST 64u

static struct {
	struct ibv_context *ctx[MOST];
	/*
	 * Written by the progress thread, after the entry. The child of a fork reads it, whatever
	 * the progress thread was doing.
	 */
	_Atomic(uint32_t) n;
} owned;

int rsk_verbs_move_fd(struct rsk_verbs *v, int *fd)
{
	int rc = v->host.own_fd(v->host.ctx, *fd);

	*fd = rc < 0 ? -1 : rc;
	if (rc >= 0)
		rc = rsk_sys_fcntl(rc, F_SETFL, rsk_sys_fcntl(rc, F_GETFL, 0) | O_NONBLOCK);
	return rc < 0 ? rc : 0;
}

int rsk_verbs_watch(struct rsk_verbs *v, int fd, struct rsk_source *source)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = source };

	return rsk_sys_epoll_ctl(v->work_fd, EPOLL_CTL_ADD, fd, &ev);
}

int rsk_verbs_own_fd(struct rsk_verbs *v, int fd, int *to)
{
	if (fd < 0)
		return fd;
	*to = fd;
	return rsk_verbs_move_fd(v, to);
}

int rsk_context_own(struct rsk_verbs *v, struct ibv_context *ctx)
{
	int rc;

	if (!ctx)
		return -ENODEV;
	for (uint32_t i = 0; i < owned.n; i++)
		if (owned.ctx[i] == ctx)
			return 0;
	if (owned.n == MOST)
		return -EMFILE;
	rc = rsk_verbs_move_fd(v, &ctx->async_fd);
	if (rc == 0)
		rc = rsk_verbs_move_fd(v, &ctx->cmd_fd);
	if (rc < 0)
		return rc;
	owned.ctx[owned.n] = ctx;
	atomic_store(&owned.n, owned.n + 1);
	return 0;
}

static void close_fd(struct rsk_verbs *v, int *fd)
{
	if (*fd >= 0)
		v->host.own_close(v->host.ctx, *fd);
	*fd = -1; /* the owner of the struct then closes nothing */
}

void rsk_context_leave(struct rsk_verbs *v, struct ibv_context *ctx)
{
	close_fd(v, &ctx->async_fd);
	close_fd(v, &ctx->cmd_fd);
	for (uint32_t i = 0; i < owned.n; i++)
		if (owned.ctx[i] == ctx)
			owned.ctx[i--] = owned.ctx[--owned.n];
}

void rsk_contexts_removed(struct rsk_verbs *v, const char *name)
{
	for (uint32_t i = owned.n; i-- > 0;)
		if (!strcmp(owned.ctx[i]->device->dev_name, name))
			rsk_context_leave(v, owned.ctx[i]);
}

void rsk_contexts_forked(void)
{
	for (uint32_t i = 0; i < owned.n; i++) {
		rsk_drop_fd(&owned.ctx[i]->cmd_fd);
		rsk_drop_fd(&owned.ctx[i]->async_fd);
	}
	owned.n = 0;
}
