// SPDX-License-Identifier: BSD-2-Clause
/* sleep_set.c - see sleep_set.h. */
#include "sleep_set.h"

#include <errno.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "process.h"
#include "link.h"
#include "tuple.h"

static void drop(struct rsk_sleep_set *set)
{
	if (set->fd > 0)
		rsk_own_close(set->fd);
	set->fd = 0;
}

/* 0 or -errno: then there is no set. */
static int make(const struct rsk_link *l, uint32_t i, struct rsk_sleep_set *set, uint64_t cookie,
		int tcp)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = RSK_SLEEP_SET_TCP };
	int fd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC)), rc;

	if (fd < 0)
		return fd;
	rc = rsk_link_watch(l, i, fd, RSK_SLEEP_SET_RUNG);
	if (rc == 0)
		rc = rsk_sys_epoll_ctl(fd, EPOLL_CTL_ADD, tcp, &ev);
	/* Another thread may have given the number to another file just before. */
	if (rc == 0 && rsk_cookie_of(tcp) != cookie)
		rc = -ESTALE;
	if (rc < 0) {
		rsk_own_close(fd);
		return rc;
	}
	set->fd = fd;
	set->tcp = tcp;
	set->cookie = cookie;
	return 0;
}

int rsk_sleep_set_for(struct rsk_link *l, uint32_t i, uint64_t cookie, int tcp)
{
	struct rsk_sleep_set *set = &l->sleep_set[i];
	bool again = set->last_cookie == cookie && set->last_tcp == tcp;

	set->last_cookie = cookie;
	set->last_tcp = tcp;
	if (set->fd > 0 && set->cookie == cookie && set->tcp == tcp)
		return set->fd;
	if (!again || !cookie)
		return -1;
	drop(set);
	return make(l, i, set, cookie, tcp) < 0 ? -1 : set->fd;
}

void rsk_sleep_sets_close(struct rsk_link *l)
{
	for (uint32_t i = 0; i < RSK_SEG_DOORBELLS; i++) {
		drop(&l->sleep_set[i]);
		l->sleep_set[i] = (struct rsk_sleep_set){ 0 };
	}
}
