// SPDX-License-Identifier: BSD-2-Clause
/*
 * module.c - the module's table of functions, and its descriptors. The library calls it; everything
 * runs on the progress thread, except poll().
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "dev.h"
#include "post.h"
#include "rail.h"

/* Control messages of one rail in one turn: as many as from a control connection */
#define WORDS_AT_ONCE 64u

static int *own_fds(struct rsk_verbs *v, size_t i)
{
	int *fd[] = { &v->work_fd, &v->news_fd, &v->more_fd, &v->kernel_fd };

	return i < sizeof(fd) / sizeof(*fd) ? fd[i] : NULL;
}

static void verbs_close(struct rsk_verbs *v)
{
	int fd;

	rsk_cm_unlisten(v);
	rsk_vdev_free_all(v);
	if (v->channel) {
		fd = v->channel->fd;
		v->channel->fd = -1;
		rsk_cm->destroy_event_channel(v->channel);
		if (fd >= 0)
			v->host.own_close(v->host.ctx, fd);
	}
	for (size_t i = 0; own_fds(v, i); i++)
		if (*own_fds(v, i) >= 0)
			v->host.own_close(v->host.ctx, *own_fds(v, i));
	free(v);
}

static bool any_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	return list && n > 0;
}

static int open_all(struct rsk_verbs *v)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int rc;

	rc = rsk_verbs_own_fd(v, rsk_sys_epoll_create1(EPOLL_CLOEXEC), &v->work_fd);
	if (rc == 0)
		rc = rsk_verbs_own_fd(v, rsk_sys_epoll_create1(EPOLL_CLOEXEC), &v->news_fd);
	if (rc == 0)
		rc = rsk_verbs_own_fd(v, rsk_sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK),
				      &v->more_fd);
	if (rc == 0)
		rc = rsk_sys_epoll_ctl(v->news_fd, EPOLL_CTL_ADD, v->more_fd, &ev);
	if (rc < 0)
		return rc;
	v->channel = rsk_cm->create_event_channel();
	if (!v->channel)
		return errno ? -errno : -ENODEV;
	rc = rsk_verbs_move_fd(v, &v->channel->fd);
	if (rc == 0)
		rc = rsk_verbs_watch(v, v->channel->fd, &v->cm);
	if (rc == 0)
		rsk_verbs_watch_kernel(v);
	return rc;
}

static int verbs_open(const struct rsk_verbs_host *host, struct rsk_verbs **out)
{
	const char *fail = getenv("RSK_VERBS_FAIL_REG"), *ack = getenv("RSK_VERBS_ACK_TIMEOUT");
	struct rsk_verbs *v;
	int rc;

	rc = rsk_cm_lib_open(host);
	if (rc < 0)
		return rc;
	if (!any_device())
		return -ENODEV;
	/*
	 * If the kernel copies registered pages at fork, nothing has to be done, and
	 * ibv_fork_init() would do harm: the child could not access those pages at all.
	 */
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		ibv_fork_init();
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->host = *host;
	v->work_fd = v->news_fd = v->more_fd = v->kernel_fd = -1;
	v->cm.kind = RSK_SOURCE_CM;
	v->fail_reg = fail ? (uint32_t)strtoul(fail, NULL, 10) : 0;
	v->ack_timeout = ack ? (uint8_t)(strtoul(ack, NULL, 10) & 31) : 0;
	rc = open_all(v);
	if (rc < 0) {
		verbs_close(v);
		return rc;
	}
	*out = v;
	return 0;
}

static int verbs_work_fd(const struct rsk_verbs *v)
{
	return v->work_fd;
}

static int verbs_news_fd(const struct rsk_verbs *v)
{
	return v->news_fd;
}

static void one_source(struct rsk_verbs *v, const struct rsk_source *s)
{
	switch (s->kind) {
	case RSK_SOURCE_CM:
		rsk_cm_events(v);
		break;
	case RSK_SOURCE_KERNEL:
		rsk_verbs_hear_kernel(v);
		break;
	case RSK_SOURCE_ASYNC:
		rsk_vdev_async(s->dev);
		break;
	case RSK_SOURCE_SEND:
		rsk_vdev_sends(s->dev);
		break;
	case RSK_SOURCE_ROOM:
		rsk_verbs_poll(v, true);
		break;
	}
}

/*
 * Takes down the rails that path threads have found broken. down() may free rails, so the loop
 * starts again after each.
 */
static void broken(struct rsk_verbs *v)
{
	struct rsk_verbs_rail *r = v->rails;

	while (r) {
		int err = atomic_load(&r->err);

		if (err && r->state != RSK_RAIL_IDLE) {
			rsk_rail_down(r, err);
			r = v->rails;
		} else {
			r = r->next;
		}
	}
}

/*
 * Writes that wait for room, control messages that are awaited, and threads that sleep on something
 * else must go on without a call of the program's. So work_fd watches for completions meanwhile.
 */
static void hear_peers(struct rsk_verbs *v)
{
	bool wanted = v->wants_room || v->wants_news;

	if (wanted != v->room_watched) {
		v->room.kind = RSK_SOURCE_ROOM;
		if (!wanted)
			rsk_sys_epoll_ctl(v->work_fd, EPOLL_CTL_DEL, v->news_fd, NULL);
		else if (rsk_verbs_watch(v, v->news_fd, &v->room) < 0) {
			v->host.call(v->host.ctx); /* no memory: try again */
			return;
		}
		v->room_watched = wanted;
	}
	atomic_store(&v->room_heard, wanted);
}

static bool verbs_hear(struct rsk_verbs *v, bool wanted)
{
	/*
	 * A stream that waits for room may rely on the watch now: work() checks that before it
	 * removes it.
	 */
	if (!wanted && v->wants_news)
		v->host.call(v->host.ctx);
	v->wants_news = wanted;
	if (wanted)
		hear_peers(v);
	return wanted && v->room_watched;
}

/*
 * Passes on a limited number of control messages of each rail in one turn, so that no peer keeps
 * the progress thread busy, or other peers waiting, by sending many. host->heard() may break or
 * free rails, so the loop starts again after each message.
 *
 * Messages that are left get another turn. A rail that used up its quota may have more: the
 * progress thread is woken again. Every other rail was asked, under in_lock, until it had none. A
 * message that comes after that wakes the progress thread when it is moved to the queue
 * (move_entries()). A message that still waits in the indirect buffer has found the queue full;
 * rsk_rail_hear() moves it when it takes another one out.
 */
static void hear_msgs(struct rsk_verbs *v)
{
	struct rsk_verbs_rail *r;
	bool more = false;

	for (r = v->rails; r; r = r->next)
		r->hears = WORDS_AT_ONCE;
	r = v->rails;
	while (r)
		r = rsk_rail_hear(r) ? v->rails : r->next;
	for (r = v->rails; r; r = r->next)
		more |= !r->hears;
	if (more)
		v->host.call(v->host.ctx);
}

static void verbs_work(struct rsk_verbs *v)
{
	struct epoll_event ev[16];
	int n = rsk_sys_epoll_pwait(v->work_fd, ev, 16, 0, NULL);

	for (int i = 0; i < n; i++)
		one_source(v, ev[i].data.ptr);
	broken(v);
	hear_msgs(v);
	v->wants_room = false;
	/*
	 * A stream that has to wait from here on wakes the progress thread, unless the loop below
	 * sees it.
	 */
	atomic_store(&v->room_heard, false);
	for (struct rsk_verbs_rail *r = v->rails; r; r = r->next) {
		pthread_mutex_lock(&r->lock);
		r->in_work = true;
		rsk_flush_lists(r);
		r->in_work = false;
		v->wants_room |= r->list[RSK_LIST_ROOM].count > 0 || r->said.sent < r->said.bytes;
		pthread_mutex_unlock(&r->lock);
	}
	hear_peers(v);
}

static const char *verbs_rail_device(const struct rsk_verbs_rail *r, uint32_t *mtu_bytes)
{
	*mtu_bytes = r->mtu_bytes;
	return r->device;
}

static void verbs_rail_dscp(struct rsk_verbs_rail *r, uint8_t dscp)
{
	r->dscp = dscp;
}

static void verbs_reg_limit(struct rsk_verbs *v, uint64_t bytes)
{
	v->reg_limit = bytes;
}

__attribute__((visibility("default"))) extern const struct rsk_verbs_module rsk_verbs_module;

const struct rsk_verbs_module rsk_verbs_module = {
	.version = RSK_VERBS_VERSION,
	.open = verbs_open,
	.close = verbs_close,
	.work_fd = verbs_work_fd,
	.work = verbs_work,
	.news_fd = verbs_news_fd,
	.poll = rsk_verbs_poll,
	.listen = rsk_cm_listen,
	.addresses = rsk_verbs_addresses,
	.rail_new = rsk_rail_new,
	.rail_dscp = verbs_rail_dscp,
	.rail_connect = rsk_cm_connect,
	.rail_break = rsk_rail_break,
	.rail_free = rsk_rail_free,
	.rail_end = rsk_rail_end,
	.rail_set_peer = rsk_rail_set_peer,
	.rail_from = rsk_cm_local_addr,
	.rail_device = verbs_rail_device,
	.reg_ctl = rsk_mr_ctl,
	.reg_ring = rsk_mr_ring,
	.reg_limit = verbs_reg_limit,
	.set_ctl = rsk_rail_set_ctl,
	.set_ring = rsk_rail_set_ring,
	.narrow_ring = rsk_mr_narrow_ring,
	.narrow_window = rsk_rail_narrow_window,
	.ring_way = rsk_rail_ring_way,
	.rail_probe = rsk_rail_probe,
	.rail_say = rsk_rail_say,
	.hear = verbs_hear,
	.rail_settle = rsk_rail_settle,
	.forked = rsk_verbs_forked,
};
