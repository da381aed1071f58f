/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c - see wait.h. */
#include "wait.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int rsk_waitset_init(struct rsk_waitset *ws, enum rsk_wait_kind kind, unsigned int capacity)
{
	*ws = (struct rsk_waitset){ .kind = kind, .capacity = capacity, .epoll_fd = -1 };
	ws->fds = calloc(capacity, sizeof(*ws->fds));
	if (!ws->fds)
		return -ENOMEM;
	for (unsigned int i = 0; i < capacity; i++)
		ws->fds[i].fd = -1;
	if (kind == RSK_WAIT_EPOLL) {
		ws->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (ws->epoll_fd < 0) {
			free(ws->fds);
			return -errno;
		}
	}
	return 0;
}

void rsk_waitset_fini(struct rsk_waitset *ws)
{
	if (ws->epoll_fd >= 0)
		close(ws->epoll_fd);
	free(ws->fds);
}

static int rsk_waitset_set_epoll(struct rsk_waitset *ws, unsigned int slot, int fd, short events)
{
	struct epoll_event ev = {
		.events = (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u),
		.data.u32 = slot,
	};
	bool had = ws->fds[slot].fd == fd;
	int op = !events ? EPOLL_CTL_DEL : had ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (!events && !had)
		return 0;
	return epoll_ctl(ws->epoll_fd, op, fd, &ev) < 0 ? -errno : 0;
}

int rsk_waitset_set(struct rsk_waitset *ws, unsigned int slot, int fd, unsigned int events)
{
	struct pollfd *p = &ws->fds[slot];
	short want = (short)((events & RSK_IN ? POLLIN : 0) | (events & RSK_OUT ? POLLOUT : 0));

	if (p->fd == (want ? fd : -1) && p->events == want)
		return 0;
	if (ws->kind == RSK_WAIT_SELECT && fd >= FD_SETSIZE)
		return -EMFILE; /* beyond what select can represent */
	if (ws->kind == RSK_WAIT_EPOLL) {
		int rc = rsk_waitset_set_epoll(ws, slot, fd, want);

		if (rc)
			return rc;
	}
	p->fd = want ? fd : -1;
	p->events = want;
	if (slot >= ws->used)
		ws->used = slot + 1;
	return 0;
}

static unsigned int rsk_events_of_poll(short revents)
{
	if (revents & (POLLERR | POLLHUP | POLLNVAL))
		return RSK_IN | RSK_OUT;
	return (revents & POLLIN ? RSK_IN : 0u) | (revents & POLLOUT ? RSK_OUT : 0u);
}

static int rsk_waitset_wait_epoll(struct rsk_waitset *ws,
				  struct rsk_ready ready[static RSK_READY_MAX])
{
	struct epoll_event evs[RSK_READY_MAX];
	int n = epoll_wait(ws->epoll_fd, evs, RSK_READY_MAX, -1);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		uint32_t e = evs[i].events;

		ready[i].slot = evs[i].data.u32;
		ready[i].events = e & (EPOLLERR | EPOLLHUP) ? RSK_IN | RSK_OUT :
							      (e & EPOLLIN ? RSK_IN : 0u) |
								      (e & EPOLLOUT ? RSK_OUT : 0u);
	}
	return n;
}

/* Puts its answer into revents, as poll does. */
static int rsk_waitset_select(struct rsk_waitset *ws)
{
	fd_set in, out;
	int max = -1, n;

	FD_ZERO(&in);
	FD_ZERO(&out);
	for (unsigned int i = 0; i < ws->used; i++) {
		const struct pollfd *p = &ws->fds[i];

		if (p->fd < 0)
			continue;
		if (p->events & POLLIN)
			FD_SET(p->fd, &in);
		if (p->events & POLLOUT)
			FD_SET(p->fd, &out);
		max = p->fd > max ? p->fd : max;
	}
	n = select(max + 1, &in, &out, NULL, NULL);
	if (n < 0)
		return -errno;
	for (unsigned int i = 0; i < ws->used; i++) {
		struct pollfd *p = &ws->fds[i];

		p->revents = 0;
		if (p->fd < 0)
			continue;
		if (FD_ISSET(p->fd, &in))
			p->revents |= POLLIN;
		if (FD_ISSET(p->fd, &out))
			p->revents |= POLLOUT;
	}
	return n;
}

int rsk_waitset_wait(struct rsk_waitset *ws, struct rsk_ready ready[static RSK_READY_MAX])
{
	unsigned int first = ws->next;
	int n, k = 0;

	if (ws->kind == RSK_WAIT_EPOLL)
		return rsk_waitset_wait_epoll(ws, ready);
	if (ws->kind == RSK_WAIT_SELECT) {
		n = rsk_waitset_select(ws);
	} else {
		n = poll(ws->fds, ws->used, -1);
		n = n < 0 ? -errno : n;
	}
	if (n < 0)
		return n;
	for (unsigned int i = 0; i < ws->used && k < RSK_READY_MAX; i++) {
		unsigned int slot = (first + i) % ws->used;

		if (ws->fds[slot].fd < 0 || !ws->fds[slot].revents)
			continue;
		ready[k].slot = slot;
		ready[k++].events = rsk_events_of_poll(ws->fds[slot].revents);
		ws->next = slot + 1;
	}
	return k;
}
