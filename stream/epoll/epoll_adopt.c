// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_adopt.c - decides whether a set that another process held as well belongs to this process
 * alone again: its registrations in the kernel must still be those that we know. epoll_doorbell.c
 * and epoll_sub.c call it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epollset.h"
#include "stream.h"

struct listing {
	int fd;
	int rc; /* of the last read() */
	size_t at, end;
	char text[4096];
};

/* The next line, without its newline; NULL: there is none, or it is too long. */
static char *next_line(struct listing *l)
{
	char *end = memchr(l->text + l->at, '\n', l->end - l->at), *line;

	if (!end) {
		l->end -= l->at;
		memmove(l->text, l->text + l->at, l->end);
		l->at = 0;
		l->rc = (int)rsk_sys_read(l->fd, l->text + l->end, sizeof(l->text) - l->end);
		if (l->rc <= 0)
			return NULL;
		l->end += (size_t)l->rc;
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

/* The registration of the stream that @fd leads to now. */
static struct rsk_reg *reg_of(const struct rsk_epoll *e, int fd)
{
	const struct rsk_stream *s = rsk_fd_stream(rsk_fd_word(fd));

	return s ? rsk_reg_find(s, e, fd) : NULL;
}

/* A oneshot registration that has fired has none of these left. */
#define ASKED (~(uint32_t)(EPOLLERR | EPOLLHUP | EPOLLET | EPOLLONESHOT | EPOLLWAKEUP))
/* The kernel adds the first two, and drops the last one if the thread may not ask for it. */
#define KERNELS ((uint32_t)(EPOLLERR | EPOLLHUP | EPOLLWAKEUP))

enum listed {
	UNLISTED,
	ARMED, /* as it was registered */
	FIRED  /* the same, and oneshot: it has fired, maybe in another process */
};

static enum listed listed_as(const struct rsk_epoll_family *f, const struct rsk_reg *r,
			     uint32_t events, uint64_t data)
{
	struct epoll_event ev = rsk_reg_plain_event(f, r);

	if (data != ev.data.u64)
		return UNLISTED;
	if ((r->events & EPOLLONESHOT) && !(events & ASKED))
		return FIRED;
	return (events ^ ev.events) & ~KERNELS ? UNLISTED : ARMED;
}

enum compared {
	SAME, /* the kernel's entries are exactly ours: no other process has changed them */
	DIFFERENT,
	UNKNOWN /* they could not be read, or not be told apart: another time */
};

/*
 * Reads the kernel's list, and stores what it says of each registration. An entry of a file that
 * had a stream's number before may be there as well.
 */
static enum compared compare_all(const struct rsk_epoll_family *f, const struct rsk_epoll *e,
				 struct listing *l, uint32_t regs)
{
	uint32_t events, found = 0;
	uint64_t data;
	char *line;
	int fd;

	while ((line = next_line(l))) {
		struct rsk_reg *r = parse(line, &fd, &events, &data) ? reg_of(e, fd) : NULL;
		enum listed as = r ? listed_as(f, r, events, data) : UNLISTED;

		if (as == UNLISTED)
			continue;
		if (r->listed != UNLISTED && r->listed != as)
			return UNKNOWN;
		found += r->listed == UNLISTED;
		r->listed = (uint8_t)as;
	}
	return l->rc < 0 ? UNKNOWN : found == regs ? SAME : DIFFERENT;
}

/* The family lock and the set's lock are held. */
static enum compared compare(const struct rsk_epoll_family *f, const struct rsk_epoll *e)
{
	struct listing l = { 0 };
	enum compared is;
	uint32_t regs = 0;
	char path[40];

	/* Such an entry is there until its stream is closed, and no number leads to it. */
	if (e->unnamed)
		return UNKNOWN;
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		r->listed = UNLISTED;
		regs++;
	}
	if (!regs)
		return SAME;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", e->epfd);
	l.fd = rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (l.fd < 0)
		return UNKNOWN;
	is = compare_all(f, e, &l, regs);
	rsk_sys_close(l.fd);
	for (struct rsk_reg *r = e->regs; r && is != UNKNOWN; r = r->next_of_set)
		if (r->listed == FIRED)
			r->armed = false;
	return is;
}

bool rsk_epoll_entry_is_ours(struct rsk_epoll *e, struct rsk_reg *r)
{
	if (rsk_kin_shares(&r->stream->fork.kin))
		return false;
	/* Nobody else ever had it, and an armed registration of it is as it was made. */
	if (!r->stream->fork.kin.serial && !(r->events & EPOLLONESHOT))
		return true;
	return compare(rsk_epoll_family(), e) != UNKNOWN && r->listed != UNLISTED;
}

bool rsk_epoll_is_ours_again(struct rsk_epoll *e)
{
	enum compared is;

	if (!e->doubtful)
		return true;
	if (rsk_kin_shares(&e->kin))
		rsk_kin_check();
	if (rsk_kin_shares(&e->kin) || e->foreign)
		return false;
	is = atomic_load(&e->kin.changed) ? DIFFERENT : compare(rsk_epoll_family(), e);
	/* Never again after a mismatch: a process that changed the set does not undo it. */
	e->foreign = is == DIFFERENT;
	e->doubtful = is != SAME;
	return is == SAME;
}
