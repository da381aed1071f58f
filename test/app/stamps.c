/* SPDX-License-Identifier: BSD-2-Clause */
/* stamps.c - tests timestamps of what is received: their forms, and which time they tell. */
#include "app.h"

/*
 * The kernel starts to stamp arriving packets some time after a socket has requested it, by
 * deferred work. Requests stamps, waits until a datagram has one, and returns the socket: as long
 * as it is open, stamps are made.
 */
static int stamping(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	char control[256] __attribute__((aligned(8)));
	struct msghdr msg;
	int option = 1 << 3 | 1 << 4; /* SOF_TIMESTAMPING_RX_SOFTWARE, _SOFTWARE */
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	MUST(fd);
	MUST(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	MUST(getsockname(fd, (struct sockaddr *)&at, &len));
	MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &option, sizeof(option)));
	do {
		MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&at, sizeof(at)));
		msg = (struct msghdr){ .msg_control = control, .msg_controllen = sizeof(control) };
		MUST(recvmsg(fd, &msg, 0));
	} while (!CMSG_FIRSTHDR(&msg));
	return fd;
}

/* Sets @option on the listener, from which accepted sockets inherit it. */
static void stamped(int option, int value)
{
	struct iovec iov = { &(char){ 0 }, 1 };
	char control[256] __attribute__((aligned(8)));
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd, listener, stamps = -1;

	if (CLI) {
		app_sync();
		fd = app_connect(COLD);
	} else {
		stamps = stamping();
		listener = app_listen(COLD);
		R(setsockopt(listener, SOL_SOCKET, option, &value, sizeof(value)));
		app_sync();
		fd = app_accept(listener);
		MUST(close(listener));
	}
	app_warm(fd);
	if (CLI) {
		SAY(fd, "x");
	} else {
		R(recvmsg(fd, &msg, 0));
		LOG("a message: %d, type %d", CMSG_FIRSTHDR(&msg) != NULL,
		    CMSG_FIRSTHDR(&msg) ? CMSG_FIRSTHDR(&msg)->cmsg_type : -1);
		MUST(close(stamps));
	}
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

CASE(of_listener, DIRECT, "SO_TIMESTAMP set on the listener: its streams give it with each message")
{
	stamped(SO_TIMESTAMP, 1);
}

CASE(new_of_listener, DIRECT, "the same, in nanoseconds of 64 bits")
{
	stamped(SO_TIMESTAMPNS_NEW, 1);
}

CASE(reporting_of_listener, DIRECT, "the same, by SO_TIMESTAMPING of software")
{
	stamped(SO_TIMESTAMPING, 1 << 3 | 1 << 4); /* SOF_TIMESTAMPING_RX_SOFTWARE, _SOFTWARE */
}

static char buf[70000], control[256] __attribute__((aligned(8)));

/* Receives with room for control messages; records them, and that they are @old_ms old. */
static void receive(int fd, size_t len, int flags, int old_ms)
{
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int64_t now_ms, at_ms = 0;
	struct timespec now;

	R(recvmsg(fd, &msg, flags));
	MUST(clock_gettime(CLOCK_REALTIME, &now));
	now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	LOG("control %zu, flags %#x", msg.msg_controllen, msg.msg_flags);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		bool us = c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMP_NEW;
		int64_t at[2] = { 0 };

		LOG("level %d type %d length %zu", c->cmsg_level, c->cmsg_type, c->cmsg_len);
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_len < CMSG_LEN(sizeof(at)))
			continue;
		memcpy(at, CMSG_DATA(c), sizeof(at));
		at_ms = at[0] * 1000 + at[1] / (us ? 1000 : 1000000);
		LOG("in bounds %d", at[1] >= 0 && at[1] < (us ? 1000000 : 1000000000));
		LOG("of arrival %d",
		    now_ms - at_ms >= old_ms - 20 && now_ms - at_ms < old_ms + 250 * app_scale());
	}
}

/*
 * The warmed stream asks with @option, and reads late. One message at a time: the kernel may make
 * one packet of two in its queue, with the time of the second.
 */
static void of_arrival(unsigned int how, int option, int value)
{
	int fd = app_open(how), stamps = -1;

	if (SRV) {
		stamps = stamping();
		R(setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value)));
	}
	app_sync();
	for (int late_ms = 300; late_ms >= 0; late_ms -= 300) {
		if (CLI)
			SAY(fd, "message");
		app_sync();
		if (SRV) {
			app_await_inq(fd, 7);
			app_pause_ms(late_ms);
			receive(fd, 3, MSG_PEEK, late_ms);
			receive(fd, 3, 0, late_ms);
			receive(fd, 9, MSG_PEEK, late_ms);
			receive(fd, 9, 0, late_ms);
		}
		app_sync();
	}
	if (CLI)
		MUST(shutdown(fd, SHUT_WR));
	app_sync();
	if (SRV) {
		receive(fd, 5, 0, 0);
		MUST(close(stamps));
	}
	app_expect_rings(1);
	app_close(fd);
}

CASE(us, DIRECT, "SO_TIMESTAMP: the time of arrival, not of the read")
{
	of_arrival(WARM, SO_TIMESTAMP, 1);
}

CASE(us_new, DIRECT, "SO_TIMESTAMP_NEW: the same")
{
	of_arrival(WARM, SO_TIMESTAMP_NEW, 1);
}

CASE(ns, DIRECT, "SO_TIMESTAMPNS: the same")
{
	of_arrival(WARM, SO_TIMESTAMPNS, 1);
}

CASE(ns_new, DIRECT, "SO_TIMESTAMPNS_NEW: the same")
{
	of_arrival(WARM | V6, SO_TIMESTAMPNS_NEW, 1);
}

CASE(reporting, DIRECT, "SO_TIMESTAMPING of software: the same")
{
	of_arrival(WARM, SO_TIMESTAMPING, 1 << 3 | 1 << 4);
}

CASE(every_length, DIRECT, "messages of all lengths, with their bytes and a stamp each")
{
	int fd = app_open(WARM), stamps = -1, on = 1;
	unsigned int told = 0;

	if (SRV) {
		stamps = stamping();
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)));
	}
	app_sync();
	for (size_t len = 1; len < 70000; len += len < 400 ? 1 : len < 20000 ? 997 : 9973) {
		if (CLI) {
			app_pattern(buf, len, 0, 5);
			app_write_all(fd, buf, len);
			MUST(read(fd, buf, 1));
		} else {
			size_t got = 0;

			while (got < len) {
				struct iovec iov = { buf + got, len - got };
				struct msghdr msg = { .msg_iov = &iov,
						      .msg_iovlen = 1,
						      .msg_control = control,
						      .msg_controllen = sizeof(control) };

				got += (size_t)MUST(recvmsg(fd, &msg, 0));
				told += !CMSG_FIRSTHDR(&msg);
			}
			if (!app_pattern_ok(buf, len, 0, 5))
				LOG("wrong bytes of %zu", len);
			MUST(write(fd, "x", 1));
		}
	}
	LOG("without a stamp: %u", told);
	if (SRV)
		MUST(close(stamps));
	app_expect_rings(1);
	app_close(fd);
}

CASE(with_inq, DIRECT, "a stamp and TCP_INQ: in this order, and cut off where there is no room")
{
	static const size_t rooms[] = { 0, 16, 20, 32, 40, 56, 64, 128 };
	int fd = app_open(WARM), stamps = -1, on = 1;

	if (SRV) {
		stamps = stamping();
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)));
		R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	}
	app_sync();
	for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
		struct iovec iov = { buf, 2 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = rooms[i] };

		if (CLI)
			SAY(fd, "text");
		if (SRV) {
			app_await_inq(fd, 4);
			R(recvmsg(fd, &msg, 0));
			LOG("room %zu: control %zu, flags %#x", rooms[i], msg.msg_controllen,
			    msg.msg_flags);
			app_hear(fd, 2);
		}
		app_sync();
	}
	if (SRV)
		MUST(close(stamps));
	app_close(fd);
}

CASE(off_again, DIRECT, "an option that is taken back, and asked for again")
{
	int fd = app_open(WARM), stamps = -1, on = 1, off = 0;

	if (SRV)
		stamps = stamping();
	for (int i = 0; i < 4; i++) {
		if (SRV)
			R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, i % 2 ? &off : &on,
				     sizeof(on)));
		app_sync();
		if (CLI)
			SAY(fd, "text");
		if (SRV) {
			app_await_inq(fd, 4);
			receive(fd, 4, 0, 0);
		}
		app_sync();
	}
	if (SRV)
		MUST(close(stamps));
	app_expect_rings(1);
	app_close(fd);
}

CASE(of_sends, DIRECT, "SO_TIMESTAMPING of sends: told by the error queue")
{
	int fd = app_open(WARM),
	    flags = 1 << 1 | 1 << 4; /* SOF_TIMESTAMPING_TX_SOFTWARE, _SOFTWARE */
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };

	if (CLI) {
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)));
		SAY(fd, "text");
		LOG("shown %d", app_await_poll(fd, 0, 10000));
		MUST(recvmsg(fd, &msg, MSG_ERRQUEUE));
		LOG("type %d", CMSG_FIRSTHDR(&msg) ? CMSG_FIRSTHDR(&msg)->cmsg_type : -1);
	} else {
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}
