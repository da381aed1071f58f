/* SPDX-License-Identifier: BSD-2-Clause */
/* zerocopy_say.h - sends with MSG_ZEROCOPY, and reads their completions: zerocopy*.c. */
#ifndef ZEROCOPY_SAY_H
#define ZEROCOPY_SAY_H

#include "app.h"

#include <linux/errqueue.h>

#define ON 1
#define BYTES 20000

static char buf[BYTES];

static inline void set_zerocopy(int fd, int on)
{
	R(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
}

/* One send of each side's case; the peer reads them with hear(). */
static inline void say(int fd, int flags)
{
	app_pattern(buf, BYTES, 0, 3);
	R(send(fd, buf, BYTES, flags));
}

static inline void hear(int fd, int times)
{
	for (int i = 0; i < times; i++)
		R(app_recv_pattern(fd, BYTES, 7000, 3));
}

struct told {
	bool some;
	uint32_t lo, hi;
	unsigned int code;
};

/* Reads one entry. */
static inline ssize_t read_one(int fd, struct told *t)
{
	char control[128] __attribute__((aligned(8)));
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &msg, MSG_ERRQUEUE);
	struct sock_extended_err ee;

	if (n < 0 || !CMSG_FIRSTHDR(&msg))
		return n;
	memcpy(&ee, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(ee));
	*t = (struct told){ true, ee.ee_info, ee.ee_data, ee.ee_code };
	return n;
}

/*
 * Reads until the completion of @last has come, and records the ranges as one, where they follow
 * each other: how many entries they have is a matter of time in the kernel.
 */
static inline void read_all(int fd, uint32_t last)
{
	struct told all = { false }, t = { false };

	while (!all.some || all.hi != last) {
		if (!(app_await_poll(fd, 0, 10000) & POLLERR))
			break;
		MUST(read_one(fd, &t));
		if (!t.some || (all.some && t.lo != all.hi + 1)) {
			LOG("%u-%u, then %d %u-%u", all.lo, all.hi, t.some, t.lo, t.hi);
			return;
		}
		all = (struct told){ true, all.some ? all.lo : t.lo, t.hi, t.code };
	}
	LOG("completions %d %u-%u code %u", all.some, all.lo, all.hi, all.code);
}

/* Nothing is unread. */
static inline void nothing(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	struct told t;

	R(read_one(fd, &t));
	R(poll(&p, 1, 0));
}

#endif
