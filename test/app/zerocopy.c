/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zerocopy.c - tests MSG_ZEROCOPY: which sends have completions, by which numbers, and what reads
 * them.
 */
#include "zerocopy_say.h"

CASE(no_option, DIRECT, "MSG_ZEROCOPY without SO_ZEROCOPY: the flag is ignored")
{
	int fd = app_open(WARM);

	if (CLI) {
		for (int i = 0; i < 3; i++)
			say(fd, MSG_ZEROCOPY);
		nothing(fd);
	} else {
		hear(fd, 3);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

static void completions(unsigned int how)
{
	int fd = app_open(how), err = -1;
	socklen_t len = sizeof(err);

	if (CLI) {
		set_zerocopy(fd, ON);
		nothing(fd);
		for (int i = 0; i < 3; i++)
			say(fd, MSG_ZEROCOPY);
		say(fd, 0);
		R(send(fd, buf, 0, MSG_ZEROCOPY));
	} else {
		hear(fd, 4);
	}
	app_sync();
	if (CLI) {
		LOG("shown %d", app_await_poll(fd, 0, 10000));
		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("SO_ERROR %d", err);
		read_all(fd, 2);
		nothing(fd);
		say(fd, MSG_ZEROCOPY | MSG_DONTWAIT);
		say(fd, MSG_ZEROCOPY | MSG_MORE);
		set_zerocopy(fd, !ON);
		say(fd, MSG_ZEROCOPY);
	} else {
		hear(fd, 3);
	}
	app_sync();
	if (CLI) {
		read_all(fd, 4);
		nothing(fd);
	}
	app_expect_rings(1);
	app_close(fd);
}

CASE(completions, DIRECT, "SO_ZEROCOPY: completions of sends with the flag, in order")
{
	completions(WARM);
}

CASE(completions_v6, DIRECT, "the same by IPv6")
{
	completions(WARM | V6);
}

CASE(option_later, DIRECT, "SO_ZEROCOPY set behind sends with the flag: they do not count")
{
	int fd = app_open(COLD);

	if (CLI) {
		say(fd, MSG_ZEROCOPY);
		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
		say(fd, 0);
	} else {
		hear(fd, 3);
	}
	app_warm(fd);
	if (CLI) {
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 1);
		nothing(fd);
	} else {
		hear(fd, 1);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

CASE(goes_on, DIRECT, "sends before and after the promotion have one sequence of numbers")
{
	int fd = app_open(COLD);

	if (CLI) {
		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
		say(fd, MSG_ZEROCOPY);
	} else {
		hear(fd, 2);
	}
	app_warm(fd);
	if (CLI) {
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 2);
		say(fd, MSG_ZEROCOPY);
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 4);
		nothing(fd);
	} else {
		hear(fd, 3);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

/* @unread: completions of the ring are read behind the fallback. */
static void falls_back(bool unread)
{
	int fd = app_open(COLD);

	if (CLI) {
		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 0); /* what the kernel has would show of itself */
	} else {
		hear(fd, 1);
	}
	app_warm(fd);
	if (CLI) {
		say(fd, MSG_ZEROCOPY);
		say(fd, MSG_ZEROCOPY);
		if (!unread)
			read_all(fd, 2);
		app_sync();
		R(send(fd, "x", 1, MSG_OOB));
		if (unread) {
			app_await_poll(fd, 0, 10000);
			read_all(fd, 2);
		}
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 3);
		say(fd, MSG_ZEROCOPY);
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 5);
		nothing(fd);
	} else {
		hear(fd, 2);
		app_sync();
		hear(fd, 3);
	}
	app_sync();
	app_close(fd);
}

CASE(falls_back, DIRECT, "a stream that falls back: the numbers go on")
{
	falls_back(false);
}

CASE(falls_back_unread, DIRECT, "the same where completions are unread")
{
	falls_back(true);
}

/* @room: for control messages; SIZE_MAX: none, by a NULL pointer. */
static void cut_off(int fd, size_t room)
{
	char control[128] __attribute__((aligned(8))) = { 0 }, byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct sockaddr_storage sa;
	struct cmsghdr head = { 0 };
	struct msghdr msg = { .msg_name = &sa,
			      .msg_namelen = sizeof(sa),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = room == SIZE_MAX ? NULL : control,
			      .msg_controllen = room == SIZE_MAX ? 0 : room };

	app_await_poll(fd, 0, 10000);
	R(recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_PEEK | MSG_CMSG_CLOEXEC));
	memcpy(&head, control, sizeof(head));
	LOG("room %zd: %zu, flags %#x, name %u, cmsg %zu %d %d, byte %c", (ssize_t)room,
	    msg.msg_controllen, msg.msg_flags, msg.msg_namelen, head.cmsg_len, head.cmsg_level,
	    head.cmsg_type, byte);
	app_bytes("control", control, sizeof(control));
}

static void cut(unsigned int how)
{
	static const size_t rooms[] = { SIZE_MAX, 0, 10, 16, 20, 40, 48, 50, 60, 64, 128 };
	int fd = app_open(how);
	bool sends = how & MAPPED ? SRV : CLI; /* of which the address is mapped */

	if (sends)
		set_zerocopy(fd, ON);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++)
		if (sends) {
			say(fd, MSG_ZEROCOPY);
			cut_off(fd, rooms[i]);
		} else {
			hear(fd, 1);
		}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

CASE(cut, DIRECT, "buffers for control messages that are too small")
{
	cut(WARM);
}

CASE(cut_mapped, DIRECT, "the same of an IPv6 socket that is connected by IPv4")
{
	cut(WARM | MAPPED);
}

CASE(other_calls, DIRECT, "recv(), recvfrom() and recvmmsg() with MSG_ERRQUEUE take entries")
{
	int fd = app_open(WARM);

	if (SRV) {
		hear(fd, 4);
	} else {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		struct mmsghdr m[2] = { { .msg_len = 9 }, { .msg_len = 9 } };
		char byte;

		set_zerocopy(fd, ON);
		R(recvmmsg(fd, m, 2, MSG_ERRQUEUE, NULL));
		say(fd, MSG_ZEROCOPY);
		app_await_poll(fd, 0, 10000);
		R(recv(fd, &byte, 1, MSG_ERRQUEUE));
		R(recv(fd, &byte, 1, MSG_ERRQUEUE));
		say(fd, MSG_ZEROCOPY);
		app_await_poll(fd, 0, 10000);
		R(recvfrom(fd, NULL, 0, MSG_ERRQUEUE, (struct sockaddr *)&sa, &len));
		LOG("address %u", len);
		nothing(fd);
		say(fd, MSG_ZEROCOPY);
		app_await_poll(fd, 0, 10000);
		R(recvmmsg(fd, m, 2, MSG_ERRQUEUE, NULL));
		LOG("%u, flags %#x", m[0].msg_len, m[0].msg_hdr.msg_flags);
		nothing(fd);
		say(fd, MSG_ZEROCOPY);
		app_await_poll(fd, 0, 10000);
		R(recvmsg(fd, NULL, MSG_ERRQUEUE));
		R(recvmsg(fd, (void *)64, MSG_ERRQUEUE));
		read_all(fd, 3);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

CASE(until_full, DIRECT, "sends in part: as many completions as sends that took bytes")
{
	int fd = app_open(WARM);

	if (CLI) {
		uint32_t sends = 0, bytes = 0, done = 0;
		ssize_t n;
		struct told t = { false };

		set_zerocopy(fd, ON);
		app_set_nonblock(fd, true);
		while ((n = send(fd, buf, BYTES, MSG_ZEROCOPY)) > 0) {
			sends++;
			bytes += (uint32_t)n;
		}
		LOG("full %s", app_errname(errno));
		app_flag_set(1, bytes);
		while (done < sends && (app_await_poll(fd, 0, 10000) & POLLERR)) {
			MUST(read_one(fd, &t));
			if (t.lo != done)
				LOG("%u-%u behind %u", t.lo, t.hi, done);
			done = t.hi + 1;
		}
		LOG("all told %d", done == sends);
		nothing(fd);
	} else {
		for (uint64_t left = app_flag_wait(1); left;)
			left -= (uint64_t)MUST(read(fd, buf, left < BYTES ? left : BYTES));
	}
	app_sync();
	app_close(fd);
}

CASE(dupped, DIRECT, "completions by another number of the socket")
{
	int fd = app_open(WARM), other;

	if (CLI) {
		set_zerocopy(fd, ON);
		other = MUST(dup(fd));
		say(other, MSG_ZEROCOPY);
		read_all(fd, 0);
		say(fd, MSG_ZEROCOPY);
		read_all(other, 1);
		app_close(other);
	} else {
		hear(fd, 2);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

CASE(forked, DIRECT, "a child that sends: both have one sequence")
{
	int fd = app_open(WARM);

	if (CLI) {
		pid_t pid;

		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 0);
		say(fd, MSG_ZEROCOPY);
		pid = MUST(fork());
		if (!pid) {
			say(fd, MSG_ZEROCOPY);
			_exit(0);
		}
		app_reap(pid, "child");
		read_all(fd, 2);
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 3);
		nothing(fd);
	} else {
		hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(inherited, DIRECT, "a child that goes on alone, and reads what was unread at the fork")
{
	int fd = app_open(WARM), go[2];

	if (CLI) {
		char byte;
		pid_t pid;

		MUST(pipe(go));
		set_zerocopy(fd, ON);
		say(fd, MSG_ZEROCOPY);
		app_await_poll(fd, 0, 10000);
		pid = MUST(fork());
		if (!pid) {
			MUST(read(go[0], &byte, 1));
			read_all(fd, 0);
			say(fd, MSG_ZEROCOPY);
			read_all(fd, 1);
			_exit(0);
		}
		app_close(fd);
		MUST(write(go[1], "x", 1));
		app_reap(pid, "child");
	} else {
		hear(fd, 2);
	}
	app_sync();
	if (SRV)
		app_close(fd);
}

CASE(of_listener, DIRECT, "SO_ZEROCOPY of a listener is its streams'")
{
	int fd, listener, on = 1;

	if (SRV) {
		listener = app_listen(COLD);
		R(setsockopt(listener, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
		app_sync();
		fd = app_accept(listener);
		MUST(close(listener));
		say(fd, MSG_ZEROCOPY);
	} else {
		app_sync();
		fd = app_connect(COLD);
		hear(fd, 1);
	}
	app_warm(fd);
	if (SRV) {
		say(fd, MSG_ZEROCOPY);
		read_all(fd, 1);
	} else {
		hear(fd, 1);
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}
