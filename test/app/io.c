/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io.c - tests every call that moves bytes, in its plain use; io_wrong.c tests wrong arguments.
 */
#include "app.h"

static char buf[1 << 20];

CASE(read_write, DIRECT, "write is read, both ways")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(write(fd, "hello", 5));
		app_await_inq(fd, 6);
		RB(buf, read(fd, buf, sizeof(buf)));
	} else {
		app_await_inq(fd, 5);
		RB(buf, read(fd, buf, sizeof(buf)));
		R(write(fd, "world!", 6));
	}
	app_sync();
	app_close(fd);
}

CASE(readv_writev, DIRECT, "gather and scatter over uneven vectors")
{
	int fd = app_open(WARM);
	char a[3], b[1], c[16];
	struct iovec out[3] = { IOV("one"), IOV(""), IOV("twothree") };
	struct iovec in[4] = { { a, 3 }, { NULL, 0 }, { b, 1 }, { c, 16 } };

	if (CLI) {
		R(writev(fd, out, 3));
	} else {
		app_await_inq(fd, 11);
		R(readv(fd, in, 4));
		app_bytes("a", a, 3);
		app_bytes("b", b, 1);
		app_bytes("c", c, 7);
	}
	app_sync();
	app_close(fd);
}

CASE(send_recv, DIRECT, "send and recv without flags")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 3; i++) {
		if (CLI) {
			R(send(fd, "abcdefgh", (size_t)i + 1, 0));
			app_hear(fd, 2);
		} else {
			app_await_inq(fd, i + 1);
			RB(buf, recv(fd, buf, sizeof(buf), 0));
			R(send(fd, "ok", 2, 0));
		}
	}
	app_sync();
	app_close(fd);
}

CASE(sendto_recvfrom, DIRECT, "recvfrom on TCP fills in no address; sendto ignores one")
{
	int fd = app_open(WARM);
	struct app_addr addr;
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	app_addr_make(&addr, 0, false, 9);
	if (CLI) {
		R(sendto(fd, "null", 4, 0, NULL, 0));
		R(sendto(fd, "addr", 4, 0, &addr.sa, addr.len));
	} else {
		app_await_inq(fd, 8);
		RB(buf, recvfrom(fd, buf, 5, 0, (struct sockaddr *)&from, &len));
		LOG("address length %u", len);
		RB(buf, recvfrom(fd, buf, sizeof(buf), 0, NULL, NULL));
	}
	app_sync();
	app_close(fd);
}

CASE(sendmsg_recvmsg, DIRECT,
     "sendmsg and recvmsg: name length, control length and flags come back")
{
	int fd = app_open(WARM);
	char control[64];
	struct sockaddr_storage name;
	struct iovec out[2] = { IOV("first"), IOV("second") };
	struct iovec in[2] = { { buf, 4 }, { buf + 100, 100 } };
	struct msghdr mo = { .msg_iov = out, .msg_iovlen = 2 };
	struct msghdr mi = { .msg_name = &name,
			     .msg_namelen = sizeof(name),
			     .msg_iov = in,
			     .msg_iovlen = 2,
			     .msg_control = control,
			     .msg_controllen = sizeof(control),
			     .msg_flags = -1 };

	if (CLI) {
		R(sendmsg(fd, &mo, 0));
	} else {
		app_await_inq(fd, 11);
		R(recvmsg(fd, &mi, 0));
		app_bytes("head", buf, 4);
		app_bytes("tail", buf + 100, 7);
		LOG("namelen %u controllen %zu flags %#x", mi.msg_namelen, mi.msg_controllen,
		    (unsigned int)mi.msg_flags);
	}
	app_sync();
	app_close(fd);
}

CASE(sendmsg_no_iov, DIRECT, "sendmsg and recvmsg with no vectors at all")
{
	int fd = app_open(WARM);
	struct msghdr msg = { 0 };

	R(sendmsg(fd, &msg, 0));
	R(recvmsg(fd, &msg, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

CASE(sendmmsg_recvmmsg, DIRECT, "several messages a call")
{
	int fd = app_open(WARM);
	struct iovec iov[3] = { IOV("aaaa"), IOV("bbbb"), IOV("cccc") };
	struct mmsghdr msg[3];

	memset(msg, 0, sizeof(msg));
	for (int i = 0; i < 3; i++) {
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	if (CLI) {
		R(sendmmsg(fd, msg, 3, 0));
	} else {
		for (int i = 0; i < 3; i++)
			iov[i].iov_base = buf + i * 8;
		app_await_inq(fd, 12);
		R(recvmmsg(fd, msg, 3, 0, NULL));
		for (int i = 0; i < 3; i++)
			app_bytes("message", buf + i * 8, msg[i].msg_len);
	}
	for (int i = 0; i < 3; i++)
		LOG("len %u", msg[i].msg_len);
	app_sync();
	app_close(fd);
}

CASE(recvmmsg_waitforone, DIRECT, "MSG_WAITFORONE returns what is there")
{
	int fd = app_open(WARM);
	struct iovec iov[4];
	struct mmsghdr msg[4];

	memset(msg, 0, sizeof(msg));
	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ buf + i * 4, 4 };
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	if (CLI) {
		SAY(fd, "12345678");
	} else {
		app_await_inq(fd, 8);
		R(recvmmsg(fd, msg, 4, MSG_WAITFORONE, NULL));
		app_bytes("bytes", buf, 8);
		R(recvmmsg(fd, msg, 4, MSG_DONTWAIT, NULL));
	}
	app_sync();
	app_close(fd);
}

CASE(recvmmsg_timeout, DIRECT, "recvmmsg with a timeout that is not reached")
{
	int fd = app_open(WARM);
	struct iovec iov[2] = { { buf, 4 }, { buf + 4, 4 } };
	struct mmsghdr msg[2];
	struct timespec ts = { 10, 0 };

	memset(msg, 0, sizeof(msg));
	for (int i = 0; i < 2; i++) {
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	if (CLI) {
		SAY(fd, "12345678");
	} else {
		app_await_inq(fd, 8);
		R(recvmmsg(fd, msg, 2, 0, &ts));
		app_bytes("bytes", buf, 8);
		LOG("time left %d", ts.tv_sec >= 5 && ts.tv_sec <= 10);
		ts.tv_nsec = -1;
		R(recvmmsg(fd, msg, 2, 0, &ts));
	}
	app_sync();
	app_close(fd);
}

CASE(preadv2_pwritev2, DIRECT,
     "offset -1 means the stream; others are ESPIPE; RWF_NOWAIT does not wait")
{
	int fd = app_open(WARM);
	struct iovec out = IOV("positionless");
	struct iovec in = { buf, 100 };

	if (CLI) {
		R(pwritev2(fd, &out, 1, -1, 0));
		R(pwritev2(fd, &out, 1, 0, 0));
		R(pwritev2(fd, &out, 1, -1, 0x40000000));
	} else {
		app_await_inq(fd, 12);
		R(preadv2(fd, &in, 1, 0, 0));
		RB(buf, preadv2(fd, &in, 1, -1, 0));
		R(preadv2(fd, &in, 1, -1, RWF_NOWAIT));
		R(preadv2(fd, &in, 1, -1, 0x40000000));
	}
	app_sync();
	app_close(fd);
}

CASE(positions, DIRECT, "pread, pwrite, lseek and friends: ESPIPE")
{
	int fd = app_open(WARM);
	struct iovec iov = { buf, 4 };

	R(pread(fd, buf, 4, 0));
	R(pread64(fd, buf, 4, 0));
	R(pwrite(fd, buf, 4, 0));
	R(preadv(fd, &iov, 1, 0));
	R(pwritev(fd, &iov, 1, 0));
	R(lseek(fd, 0, SEEK_CUR));
	R(ftruncate(fd, 0));
	R(fsync(fd));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

CASE(partial_reads, DIRECT, "one message in many reads")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		for (int i = 0; i < 4; i++)
			RB(buf, recv(fd, buf, 3, 0));
		R(recv(fd, buf, 3, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(messages_join, DIRECT, "one read over many messages")
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		for (int i = 0; i < 50; i++)
			SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 500);
		RB(buf, read(fd, buf, 7));
		RB(buf, read(fd, buf, 430));
		RB(buf, read(fd, buf, sizeof(buf)));
	}
	app_sync();
	app_close(fd);
}

CASE(zero_length, DIRECT, "zero-length calls, with and without data there")
{
	int fd = app_open(WARM);
	struct iovec none = { buf, 0 };

	for (int turn = 0; turn < 2; turn++) {
		if (SRV) {
			if (turn)
				app_await_inq(fd, 4);
			R(read(fd, buf, 0));
			R(readv(fd, &none, 0));
			R(readv(fd, &none, 1));
			R(recv(fd, buf, 0, MSG_DONTWAIT));
			R(recv(fd, NULL, 0, MSG_DONTWAIT));
			R(recv(fd, buf, 0, MSG_DONTWAIT | MSG_PEEK));
		} else {
			R(write(fd, buf, 0));
			R(write(fd, NULL, 0));
			R(writev(fd, &none, 0));
			R(writev(fd, &none, 1));
			R(send(fd, buf, 0, 0));
		}
		app_sync();
		if (CLI && !turn)
			SAY(fd, "data");
	}
	if (SRV)
		app_hear(fd, 4);
	app_sync();
	app_close(fd);
}

CASE(recv_zero_blocks, DIRECT, "recv of no bytes waits for data, then takes none")
{
	int fd = app_open(WARM);

	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		R(recv(fd, buf, 0, 0));
		app_hear(fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "wake");
	}
	app_sync();
	app_close(fd);
}

CASE(nonblock_empty, DIRECT, "O_NONBLOCK: nothing there is EAGAIN in every call")
{
	int fd = app_open(WARM);
	struct iovec iov = { buf, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct mmsghdr mmsg = { .msg_hdr = msg };

	app_set_nonblock(fd, true);
	R(read(fd, buf, 4));
	R(readv(fd, &iov, 1));
	R(recv(fd, buf, 4, 0));
	R(recvfrom(fd, buf, 4, 0, NULL, NULL));
	R(recvmsg(fd, &msg, 0));
	R(recvmmsg(fd, &mmsg, 1, 0, NULL));
	R(preadv2(fd, &iov, 1, -1, 0));
	app_sync();
	app_close(fd);
}
