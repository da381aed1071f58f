// SPDX-License-Identifier: BSD-2-Clause
/* resets.c - see resets.h. */
#include "resets.h"

#include <string.h>

#include <rsock/sys.h>

#include "over.h"
#include "stream.h"

static const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

static bool linger_of(int fd, struct linger *l)
{
	socklen_t len = sizeof(*l);

	return fd >= 0 && rsk_sys_getsockopt(fd, SOL_SOCKET, SO_LINGER, l, &len) == 0;
}

/* linger.lock is held. */
static void change(struct rsk_stream *s, int fd, unsigned int to)
{
	struct linger now;

	if (!s->linger.resets && to) {
		if (!linger_of(fd, &s->linger.own))
			return;
		rsk_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	/* Otherwise another process has restored it, or its program has set a value. */
	if (s->linger.resets && !to && linger_of(fd, &now) && now.l_onoff && !now.l_linger)
		rsk_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &s->linger.own, sizeof(reset));
	s->linger.resets = to;
}

void rsk_resets(struct rsk_stream *s, int fd, unsigned int why, bool on)
{
	unsigned int to;

	rsk_lock(&s->linger.lock);
	to = on ? s->linger.resets | why : s->linger.resets & ~why;
	if (to != s->linger.resets)
		change(s, fd, to);
	rsk_unlock(&s->linger.lock);
}

void rsk_resets_linger(struct rsk_stream *s, int fd, struct linger *l)
{
	rsk_lock(&s->linger.lock);
	if (s->linger.resets == RSK_RESETS_OWED)
		*l = s->linger.own;
	else if (!linger_of(fd, l))
		*l = (struct linger){ 0 };
	rsk_unlock(&s->linger.lock);
}

/* Other processes may have read the file: then nothing is unread there. */
static void look_at_file(struct rsk_stream *s, int fd)
{
	rsk_lock(&s->rx_lock);
	if (!rsk_over_unread(s))
		rsk_resets(s, fd, RSK_RESETS_UNREAD, false);
	rsk_unlock(&s->rx_lock);
}

void rsk_fd_set_linger(int fd)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_lock(&s->linger.lock);
	if (s->linger.resets) {
		unsigned int again = s->linger.resets;

		s->linger.resets = 0;
		change(s, fd, again);
	}
	rsk_unlock(&s->linger.lock);
	look_at_file(s, fd);
	rsk_stream_unpin(s);
}

void rsk_fd_get_linger(int fd, void *val, unsigned int len)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_lock(&s->linger.lock);
	if (s->linger.resets)
		memcpy(val, &s->linger.own,
		       len < sizeof(s->linger.own) ? len : sizeof(s->linger.own));
	rsk_unlock(&s->linger.lock);
	rsk_stream_unpin(s);
}
