// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_fork.c - sets and forks. The kernel's set is one, of parent and child; the shadows are two. So before a fork
 * every registration is the kernel's own again, with the application's data, and no doorbell is in the set. A stream
 * is taken over again once the set is this process's alone, if what is registered there is what we think it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epollset.h"
#include "kin.h"
#include "over.h"

/* ---- around a fork ---- */

/* Set's and family's lock held. */
static void restore_all(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct rsk_reg *r, *next;

	for (r = e->regs; r; r = next) {
		next = r->next_of_set;
		rsk_reg_restore(f, r);
	}
	if (e->sub >= 0) {
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->lamp, NULL);
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->sub, NULL);
		rsk_own_close(e->sub);
		rsk_own_close(e->lamp);
		e->sub = e->lamp = -1;
		e->lit = false;
	} else {
		for (uint32_t i = 0; i < e->nlinks; i++)
			rsk_link_unwatch(e->links[i].l, e->links[i].bell, e->epfd);
	}
	rsk_epoll_give_bells(e);
	e->remote = false;
	e->relief_ns = 0;
	rsk_epoll_over_fork(f, e);
	e->doubtful = true;
}

void rsk_epoll_fork(struct rsk_epoll *const *sets, const int *fd, uint32_t n)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (uint32_t i = 0; i < n; i++) {
		rsk_lock(&sets[i]->lock);
		rsk_epoll_name(sets[i], fd[i]);
		restore_all(f, sets[i]);
	}
	rsk_lock(&f->chain);
}

void rsk_epoll_fork_over(struct rsk_epoll *const *sets, uint32_t n, bool child)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	rsk_unlock(&f->chain);
	for (uint32_t i = 0; i < n; i++) {
		struct rsk_epoll *e = sets[i];

		if (child) {
			e->beacon = -1; /* closed as all that is the library's */
			atomic_store(&e->sleepers, 0);
		}
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

bool rsk_epoll_tells(const struct rsk_stream *s)
{
	for (const struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (r->tagged || rsk_over_is(s))
			return true;
	return false;
}

/* ---- alone again ---- */

struct listing {
	int fd;
	size_t at, end;
	char text[4096];
};

/* The next line, without its end; NULL: none, or too long a one. */
static char *next_line(struct listing *l)
{
	char *end = memchr(l->text + l->at, '\n', l->end - l->at), *line;
	ssize_t n;

	if (!end) {
		l->end -= l->at;
		memmove(l->text, l->text + l->at, l->end);
		l->at = 0;
		n = rsk_sys_read(l->fd, l->text + l->end, sizeof(l->text) - l->end);
		if (n <= 0)
			return NULL;
		l->end += (size_t)n;
		end = memchr(l->text, '\n', l->end);
		if (!end)
			return NULL;
	}
	*end = 0;
	line = l->text + l->at;
	l->at = (size_t)(end - l->text) + 1;
	return line;
}

/* "tfd: 5 events: 19 data: 1f  pos:..." */
static bool parse(const char *line, int *fd, uint32_t *events, uint64_t *data)
{
	const char *at = strstr(line, "events:"), *in = strstr(line, "data:");

	if (strncmp(line, "tfd:", 4) != 0 || !at || !in)
		return false;
	*fd = (int)strtol(line + 4, NULL, 10);
	*events = (uint32_t)strtoul(at + 7, NULL, 16);
	*data = strtoull(in + 5, NULL, 16);
	return true;
}

static struct rsk_reg *reg_of(const struct rsk_epoll *e, int fd)
{
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		if (r->key_fd == fd)
			return r;
	return NULL;
}

/* A oneshot that has fired has none of these left. */
#define ASKED (~(uint32_t)(EPOLLERR | EPOLLHUP | EPOLLET | EPOLLONESHOT | EPOLLWAKEUP))

static bool as_registered(const struct rsk_epoll_family *f, struct rsk_reg *r, uint32_t events,
			  uint64_t data)
{
	struct epoll_event ev = rsk_reg_plain_event(f, r);

	if (data != ev.data.u64)
		return false;
	if ((r->events & EPOLLONESHOT) && !(events & ASKED)) {
		r->armed = false;
		return true;
	}
	return ((events ^ ev.events) & ~(uint32_t)(EPOLLERR | EPOLLHUP)) == 0;
}

/* The kernel's registrations are those that we know of: another process may have changed them. Set's lock held. */
static bool is_known(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	uint32_t regs = 0, seen = 0, events;
	struct listing l = { 0 };
	bool right = true;
	uint64_t data;
	char *line;
	char path[40];
	int fd;

	for (const struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		regs++;
	if (!regs)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", e->epfd);
	l.fd = rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (l.fd < 0)
		return false;
	while (right && (line = next_line(&l))) {
		struct rsk_reg *r;

		if (!parse(line, &fd, &events, &data))
			continue;
		r = reg_of(e, fd);
		if (!r || !rsk_fd_names(fd, r->stream))
			continue;
		seen++;
		right = as_registered(f, r, events, data);
	}
	rsk_sys_close(l.fd);
	return right && seen == regs;
}

bool rsk_epoll_adopt(struct rsk_epoll *e)
{
	if (!e->doubtful)
		return true;
	if (rsk_kin_shares(&e->kin))
		rsk_kin_look();
	if (rsk_kin_shares(&e->kin))
		return false;
	/* Once for each fork: who has changed it does not change it back. */
	if (!e->foreign && (atomic_load(&e->kin.changed) || !is_known(rsk_epoll_family(), e)))
		e->foreign = true;
	if (e->foreign)
		return false;
	e->doubtful = false;
	return true;
}

int rsk_epoll_retake(struct rsk_stream *s)
{
	struct rsk_epoll_family *f =
		__atomic_load_n(&s->regs, __ATOMIC_RELAXED) ? rsk_epoll_family() : NULL;
	int rc = 0;

	if (!f)
		return 0;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r && rc == 0; r = r->next_of_stream) {
		rsk_lock(&r->set->lock);
		if (!r->tagged)
			rc = r->key_fd < 0 || r->set->collides ? -EBUSY : rsk_reg_take_over(f, r);
		rsk_unlock(&r->set->lock);
	}
	rsk_unlock(&f->lock);
	if (rc < 0)
		rsk_stats_set_reason(s->rec, RSK_REASON_EPOLL_SHARED);
	return rc;
}
