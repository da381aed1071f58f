/* SPDX-License-Identifier: BSD-2-Clause */
/* bulk.c - tests much data, many streams, and both from the first byte on, across the promotion. */
#include <rsock/splitmix.h>

#include "app.h"

static char buf[1 << 20];

struct flow {
	int fd;
	uint64_t len;
	size_t chunk;
	unsigned int seed;
};

static void flow_send(void *arg)
{
	struct flow *flow = arg;

	LOG("sent %d", app_send_pattern(flow->fd, flow->len, flow->chunk, flow->seed));
}

/* Both directions at once, at full speed. */
static void duplex(int fd, uint64_t len, size_t out, size_t in)
{
	struct flow flow = { fd, len, out, (unsigned int)app_side };
	struct app_thread thread;

	app_thread_start(&thread, flow_send, &flow);
	bool ok = app_recv_pattern(fd, len, in, (unsigned int)!app_side);

	app_thread_join(&thread);
	LOG("received %d", ok);
}

CASE(both_write_first, DIRECT, "both write 3 MB before they read")
{
	int fd = app_open(WARM);

	R(app_send_pattern(fd, 3000000, 3000000, (unsigned int)app_side));
	R(app_recv_pattern(fd, 3000000, 65536, (unsigned int)!app_side));
	app_sync();
	app_close(fd);
}

CASE(both_write_first_cold, 0, "both write 3 MB before they read, on a fresh connection")
{
	int fd = app_open(COLD);

	R(app_send_pattern(fd, 3000000, 100000, (unsigned int)app_side));
	R(app_recv_pattern(fd, 3000000, 65536, (unsigned int)!app_side));
	app_sync();
	app_close(fd);
}

CASE(pingpong_1byte, DIRECT, "1 byte there and back, 10,000 times")
{
	int fd = app_open(WARM | NODELAY);
	int good = 0;

	for (int i = 0; i < 10000; i++) {
		char out = (char)i, in = (char)~i;

		if (CLI)
			MUST(write(fd, &out, 1));
		if (read(fd, &in, 1) != 1)
			break;
		if (SRV)
			MUST(write(fd, &in, 1));
		good += in == out;
	}
	LOG("good %d", good);
	app_sync();
	app_close(fd);
}

CASE(bulk_64m, DIRECT | LONG_RUN, "64 MiB one way, then 64 MiB the other")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 2; i++) {
		if ((i == 0) == CLI)
			R(app_send_pattern(fd, 64u << 20, 128 << 10, (unsigned int)i));
		else
			R(app_recv_pattern(fd, 64u << 20, 128 << 10, (unsigned int)i));
	}
	app_sync();
	app_close(fd);
}

CASE(duplex_32m, DIRECT | LONG_RUN, "32 MiB both ways at once")
{
	int fd = app_open(WARM);

	duplex(fd, 32u << 20, 50000, 60000);
	app_sync();
	app_close(fd);
}

CASE(promote_flat_out, DIRECT | LONG_RUN,
     "32 MiB both ways at once from the first byte, then again")
{
	int fd = app_open(COLD);

	duplex(fd, 32u << 20, 50000, 60000);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	duplex(fd, 1u << 20, 3000, 2000);
	app_sync();
	app_close(fd);
}

CASE(promote_small_writes, DIRECT, "small writes flat out both ways from the first byte")
{
	int fd = app_open(COLD | NODELAY);

	duplex(fd, 2u << 20, 61, 997);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	app_close(fd);
}

CASE(promote_one_way, DIRECT | LONG_RUN, "16 MiB one way from the first byte, then the other way")
{
	int fd = app_open(COLD);

	for (int i = 0; i < 2; i++) {
		if ((i == 0) == CLI)
			R(app_send_pattern(fd, 16u << 20, 16384, (unsigned int)i));
		else
			R(app_recv_pattern(fd, 16u << 20, 16384, (unsigned int)i));
	}
	app_warm(fd);
	app_expect_rings(1);
	app_close(fd);
}

CASE(promote_with_queue, DIRECT, "promoted while 40 KB wait unread in one direction")
{
	int fd = app_open(COLD | NODELAY);
	char small[64];

	if (SRV) {
		app_pattern(buf, 40000, 0, 1);
		app_write_all(fd, buf, 40000);
	}
	/* One direction only: what is queued in the other one stays queued. */
	for (int i = 0; i < 1500; i++) {
		memset(small, 'q', sizeof(small));
		if (CLI)
			app_write_all(fd, small, sizeof(small));
		else
			app_read_full(fd, small, sizeof(small));
	}
	if (CLI)
		R(app_recv_pattern(fd, 40000, 1000, 1));
	app_warm(fd);
	app_expect_rings(1);
	app_close(fd);
}

CASE(sizes, DIRECT, "request and reply of every size from 1 byte to 300 KB, growing by a third")
{
	int fd = app_open(WARM | NODELAY);

	for (size_t len = 1; len < 300000; len += len / 3 + 1) {
		if (CLI) {
			if (!app_send_pattern(fd, len, len, 1) ||
			    !app_recv_pattern(fd, len, len, 2))
				LOG("size %zu", len);
		} else {
			if (!app_recv_pattern(fd, len, len, 1) ||
			    !app_send_pattern(fd, len, len, 2))
				LOG("size %zu", len);
		}
	}
	app_sync();
	app_close(fd);
}

CASE(random_calls, DIRECT, "16 MiB by calls and sizes drawn by lot, on both ends")
{
	int fd = app_open(WARM);
	uint64_t rnd = (uint64_t)app_side, pos = 0, len = 16u << 20;
	bool ok = true;

	while (pos < len && ok) {
		size_t now = (size_t)(rsk_splitmix_next(&rnd) %
				      (rsk_splitmix_next(&rnd) % 4 ? 3000 : 70000)) +
			     1;
		struct iovec iov[3];
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
		ssize_t n = 0;

		if (now > len - pos)
			now = (size_t)(len - pos);
		iov[0] = (struct iovec){ buf, now / 3 };
		iov[1] = (struct iovec){ buf + now / 3, now / 2 };
		iov[2] = (struct iovec){ buf + now / 3 + now / 2, now - now / 3 - now / 2 };
		if (CLI)
			app_pattern(buf, now, pos, 1);
		switch (rsk_splitmix_next(&rnd) % 5) {
		case 0:
			n = CLI ? write(fd, buf, now) : read(fd, buf, now);
			break;
		case 1:
			n = CLI ? send(fd, buf, now, MSG_MORE) : recv(fd, buf, now, MSG_WAITALL);
			break;
		case 2:
			n = CLI ? writev(fd, iov, 3) : readv(fd, iov, 3);
			break;
		case 3:
			n = CLI ? sendmsg(fd, &msg, 0) : recvmsg(fd, &msg, 0);
			break;
		default:
			if (SRV)
				n = recv(fd, buf, now, MSG_PEEK);
			if (SRV && n > 0)
				ok = app_pattern_ok(buf, (size_t)n, pos, 1);
			n = CLI ? sendto(fd, buf, now, 0, NULL, 0) :
				  recvfrom(fd, buf, now, 0, NULL, NULL);
		}
		if (n <= 0 || (SRV && !app_pattern_ok(buf, (size_t)n, pos, 1)))
			ok = false;
		pos += n > 0 ? (uint64_t)n : 0;
	}
	LOG("complete %d right %d", pos == len, ok);
	app_sync();
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

CASE(many_streams, DIRECT, "50 streams between two processes, used in turn, 200 rounds")
{
	int fds[50], good = 0;

	app_open_more(COLD | NODELAY, fds, 50);
	for (int r = 0; r < 200; r++) {
		for (int i = 0; i < 50; i++) {
			uint32_t out = (uint32_t)(r * 50 + i), in = ~out;

			if (CLI)
				MUST(write(fds[i], &out, sizeof(out)));
			if (app_read_full(fds[i], &in, sizeof(in)) != sizeof(in))
				break;
			if (SRV)
				MUST(write(fds[i], &in, sizeof(in)));
			good += in == out;
		}
	}
	LOG("good %d", good);
	app_sync();
	app_expect_rings(50);
	for (int i = 0; i < 50; i++)
		app_close(fds[i]);
}

CASE(pipeline, DIRECT, "20,000 requests of 32 bytes in flight before the replies are read")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 640000, 32, 1));
		R(app_recv_pattern(fd, 640000, 4096, 1));
	} else {
		uint64_t done = 0;

		while (done < 640000) {
			ssize_t n = read(fd, buf, 4096);

			if (n <= 0)
				break;
			app_write_all(fd, buf, (size_t)n);
			done += (uint64_t)n;
		}
		LOG("done %llu", (unsigned long long)done);
	}
	app_sync();
	app_close(fd);
}

CASE(slow_reader, DIRECT, "8 MiB to a reader that takes 100 bytes at a time for a while")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 8u << 20, 65536, 1));
	} else {
		uint64_t pos = 0;
		bool ok = true;

		while (pos < 8u << 20 && ok) {
			size_t now = pos < 1u << 19 ? 100 : 65536;
			ssize_t n = read(fd, buf, now);

			ok = n > 0 && app_pattern_ok(buf, (size_t)n, pos, 1);
			pos += n > 0 ? (uint64_t)n : 0;
		}
		LOG("right %d", ok);
	}
	app_sync();
	app_close(fd);
}

CASE(stop_and_go, DIRECT, "bursts of 1 MiB, each answered after the reader slept")
{
	int fd = app_open(WARM);
	char ok[2];

	for (int i = 0; i < 10; i++) {
		if (CLI) {
			R(app_send_pattern(fd, 1 << 20, 100000, (unsigned int)i));
			app_read_full(fd, ok, 2);
		} else {
			R(app_recv_pattern(fd, 1 << 20, 100000, (unsigned int)i));
			app_write_all(fd, "ok", 2);
		}
	}
	app_sync();
	app_close(fd);
}

/*
 * Reads twice @run bytes by one readv, or @run by one read; after each, checks the number of bytes
 * left.
 */
static bool read_by_parts(int fd, size_t len, size_t run, unsigned int seed)
{
	size_t at = 0;

	while (at < len) {
		struct iovec iov[2] = { { buf, run }, { buf + run, run } };
		bool twice = at / run % 2;
		ssize_t n = readv(fd, iov, twice ? 2 : 1);
		int inq = -1;

		if (n <= 0 || !app_pattern_ok(buf, (size_t)n, at, seed))
			return false;
		at += (size_t)n;
		if (ioctl(fd, FIONREAD, &inq) < 0 || (size_t)inq != len - at)
			return false;
		if (at < len &&
		    (recv(fd, buf, run, MSG_PEEK) <= 0 || !app_pattern_ok(buf, 1, at, seed)))
			return false;
	}
	return true;
}

CASE(read_by_parts, DIRECT, "60,000 bytes by reads smaller than a slot, with FIONREAD after each")
{
	static const size_t runs[] = { 1,    700,   1023,  1024,  1025, 4096,
				       8192, 10000, 16383, 16384, 50000 };
	int fd = app_open(WARM);

	for (unsigned int i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		size_t len = runs[i] < 100 ? 3000 : 60000;

		if (CLI)
			R(app_send_pattern(fd, len, len, i));
		else
			app_await_inq(fd, (int)len);
		app_sync();
		if (SRV)
			LOG("%zu: %d", runs[i], read_by_parts(fd, len, runs[i], i));
		app_sync();
	}
	app_close(fd);
}
