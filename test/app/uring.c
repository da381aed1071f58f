/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring.c - tests a program that sets up io_uring by syscall(): what it does by the ring with a
 * stream's descriptor, where no hook sees the bytes.
 */
#include "uring.h"

static char buf[1 << 20];

CASE(setup_only, DIRECT, "io_uring_setup by syscall(), then ordinary calls")
{
	int fd = app_open(WARM);
	struct ring ring;

	if (SRV) {
		app_await_inq(fd, 6);
		LOG("ring %d", ring_open(&ring));
	} else {
		SAY(fd, "queued");
		app_flag_wait(0);
	}
	if (SRV) {
		app_hear(fd, 6);
		app_flag_set(0, 1);
		R(app_send_pattern(fd, 300000, 10000, 1));
		R(app_recv_pattern(fd, 300000, 10000, 2));
	} else {
		R(app_recv_pattern(fd, 300000, 10000, 1));
		R(app_send_pattern(fd, 300000, 10000, 2));
	}
	app_sync();
	app_close(fd);
}

CASE(ring_io, DIRECT,
     "reads and writes by io_uring on a stream with bytes waiting, while the peer goes on")
{
	int fd = app_open(WARM | NODELAY);
	struct ring ring;

	if (SRV) {
		app_await_inq(fd, 6);
		bool have = ring_open(&ring);

		LOG("ring %d", have);
		for (uint32_t i = 0; i < 201; i++) {
			uint32_t len = i ? 4 : 6;
			int n = have ? ring_do(&ring, IORING_OP_RECV, fd, buf, len) :
				       (int)recv(fd, buf, len, 0);

			if (n != (int)len)
				app_die("message %u: %d", i, n);
			if (!i)
				app_bytes("first", buf, 6);
			n = have ? ring_do(&ring, IORING_OP_SEND, fd, buf, 4) :
				   (int)send(fd, buf, 4, 0);
			if (n != 4)
				app_die("reply %u: %d", i, n);
		}
		LOG("done");
	} else {
		char text[4];
		int good = 0;

		SAY(fd, "queued");
		app_hear(fd, 4);
		for (uint32_t i = 0; i < 200; i++) {
			memcpy(text, &i, 4);
			app_write_all(fd, text, 4);
			good += app_read_full(fd, text, 4) == 4 && !memcmp(text, &i, 4);
		}
		LOG("good %d", good);
	}
	app_sync();
	app_close(fd);
}

CASE(ring_first, DIRECT, "io_uring set up before the stream is opened")
{
	struct ring ring;

	if (SRV)
		LOG("ring %d", ring_open(&ring));
	int fd = app_open(WARM | NODELAY);

	if (CLI)
		R(app_send_pattern(fd, 300000, 10000, 1));
	else
		R(app_recv_pattern(fd, 300000, 10000, 1));
	app_sync();
	app_close(fd);
}

CASE(registered, 0, "a stream with bytes waiting is registered as a file of a ring, and read there")
{
	int fd = app_open(WARM | NODELAY);
	struct ring ring;

	if (SRV) {
		struct io_uring_sqe e = { .opcode = IORING_OP_READ,
					  .flags = IOSQE_FIXED_FILE,
					  .addr = (uintptr_t)buf,
					  .len = 6 };

		app_await_inq(fd, 6);
		if (ring_open(&ring)) {
			LOG("register %ld",
			    syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &fd, 1));
			LOG("read %d", ring_one(&ring, e));
		} else {
			LOG("register 0");
			LOG("read %d", (int)read(fd, buf, 6));
		}
		app_bytes("bytes", buf, 6);
		SAY(fd, "seen");
	} else {
		SAY(fd, "queued");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(closed_there, 0,
     "a ring closes a stream with bytes waiting in its peer; its number is used again")
{
	int fd = app_open(WARM | NODELAY), pipes[2];
	struct ring ring;

	if (SRV) {
		SAY(fd, "the last");
		app_hear(fd, 4);
		if (ring_open(&ring))
			LOG("close %d", ring_do(&ring, IORING_OP_CLOSE, fd, NULL, 0));
		else
			LOG("close %d", close(fd));
		if (pipe(pipes) < 0 || dup2(pipes[0], fd) != fd || write(pipes[1], "pipe", 4) != 4)
			app_die("pipe");
		LOG("read %d", (int)read(fd, buf, 10));
		app_bytes("of the pipe", buf, 4);
		close(pipes[0]);
		close(pipes[1]);
		close(fd);
		app_flag_set(0, 1);
	} else {
		SAY(fd, "gone");
		app_flag_wait(0);
		app_hear(fd, 8);
		LOG("then %d", (int)read(fd, buf, 1));
		close(fd);
	}
}

CASE(polled, 0, "a ring polls a stream that is on the ring, and is told of its bytes")
{
	int fd = app_open(WARM | NODELAY);
	struct ring ring;

	if (SRV) {
		struct io_uring_sqe e = { .opcode = IORING_OP_POLL_ADD,
					  .fd = fd,
					  .poll32_events = POLLIN };
		struct pollfd p = { .fd = fd, .events = POLLIN };

		app_flag_set(0, 1);
		LOG("ready %d",
		    ring_open(&ring) ? ring_one(&ring, e) : (poll(&p, 1, -1), p.revents));
		app_hear(fd, 6);
		SAY(fd, "seen");
	} else {
		app_flag_wait(0);
		SAY(fd, "queued");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(passed, 0,
     "a ring sends the descriptor of a stream with bytes waiting, which are read by the copy")
{
	int fd = app_open(WARM | NODELAY), pair[2], copy = -1;
	struct ring ring;

	if (SRV) {
		union {
			struct cmsghdr head;
			char room[CMSG_SPACE(sizeof(int))];
		} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS } };
		struct iovec byte = { buf, 1 };
		struct msghdr msg = { .msg_iov = &byte,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control) };

		app_await_inq(fd, 6);
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			app_die("socketpair");
		if (ring_open(&ring))
			LOG("sent %d", ring_do(&ring, IORING_OP_SENDMSG, pair[0], &msg, 1));
		else
			LOG("sent %d", (int)sendmsg(pair[0], &msg, 0));
		LOG("got %d", (int)recvmsg(pair[1], &msg, 0));
		memcpy(&copy, CMSG_DATA(&control.head), sizeof(copy));
		LOG("read %d", (int)read(copy, buf, 6));
		app_bytes("bytes", buf, 6);
		SAY(fd, "seen");
		close(copy);
		close(pair[0]);
		close(pair[1]);
	} else {
		SAY(fd, "queued");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(spliced, 0, "a ring splices a stream with bytes waiting into a pipe")
{
	int fd = app_open(WARM | NODELAY), pipes[2];
	struct ring ring;

	if (SRV) {
		app_await_inq(fd, 6);
		if (pipe(pipes) < 0)
			app_die("pipe");
		struct io_uring_sqe e = { .opcode = IORING_OP_SPLICE,
					  .fd = pipes[1],
					  .off = UINT64_MAX,
					  .splice_fd_in = fd,
					  .splice_off_in = UINT64_MAX,
					  .len = 6 };

		LOG("spliced %d", ring_open(&ring) ? ring_one(&ring, e) :
						     (int)splice(fd, NULL, pipes[1], NULL, 6, 0));
		LOG("read %d", (int)read(pipes[0], buf, 6));
		app_bytes("bytes", buf, 6);
		SAY(fd, "seen");
		close(pipes[0]);
		close(pipes[1]);
	} else {
		SAY(fd, "queued");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(closed_ring, DIRECT, "io_uring_enter() by a number that was a ring's, or is another file's")
{
	struct ring ring;
	bool have = ring_open(&ring);
	int fd = app_open(WARM), file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (SRV && have) {
		close(ring.fd);
		LOG("closed %d %s", (int)syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0),
		    app_errname(errno));
		if (dup2(file, ring.fd) != ring.fd)
			app_die("dup2");
		LOG("a file %d %s", (int)syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0),
		    app_errname(errno));
		close(ring.fd);
	} else if (SRV) {
		LOG("closed -1 EBADF");
		LOG("a file -1 EOPNOTSUPP");
	}
	close(file);
	app_sync();
	app_close(fd);
}

CASE(registered_early, 0,
     "a socket becomes a file of a ring before it is connected, and is read there")
{
	struct io_uring_sqe e = { .opcode = IORING_OP_RECV,
				  .flags = IOSQE_FIXED_FILE,
				  .addr = (uintptr_t)buf,
				  .len = 4 };
	struct ring ring;
	int fd;

	if (SRV) {
		int listener = app_listen(0);

		fd = app_accept(listener);
		close(listener);
		for (int i = 0; i < 300; i++) {
			app_read_full(fd, buf, 4);
			app_write_all(fd, buf, 4);
		}
		SAY(fd, "last");
		app_hear(fd, 4);
	} else {
		bool have = ring_open(&ring);
		struct app_addr to;

		app_addr_make(&to, 0, false, app_port());
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (have && syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &fd, 1))
			app_die("register: %s", app_errname(errno));
		R(connect(fd, &to.sa, to.len));
		for (int i = 0; i < 300; i++) {
			app_write_all(fd, "ping", 4);
			app_read_full(fd, buf, 4);
		}
		LOG("received %d", have ? ring_one(&ring, e) : (int)recv(fd, buf, 4, 0));
		app_bytes("bytes", buf, 4);
		SAY(fd, "done");
	}
	app_sync();
	close(fd);
}

CASE(polled_early, 0, "a ring watches a socket from before its connect on, again and again")
{
	struct io_uring_sqe e = { .opcode = IORING_OP_POLL_ADD,
				  .poll32_events = POLLIN | POLLRDHUP,
				  .len = IORING_POLL_ADD_MULTI };
	struct ring ring;
	int fd;

	if (SRV) {
		int listener = app_listen(0);

		fd = app_accept(listener);
		close(listener);
		for (int i = 0; i < 300; i++) {
			app_read_full(fd, buf, 4);
			app_write_all(fd, buf, 4);
		}
		app_flag_wait(1);
		SAY(fd, "last");
		app_hear(fd, 4);
	} else {
		struct pollfd p = { .events = POLLIN };
		struct app_addr to;

		app_addr_make(&to, 0, false, app_port());
		e.fd = p.fd = fd = socket(AF_INET, SOCK_STREAM, 0);
		if (ring_open(&ring)) {
			ring_submit_only(&ring, &e);
			p.fd = ring.fd; /* readable: there are completions */
		}
		R(connect(fd, &to.sa, to.len));
		for (int i = 0; i < 300; i++) {
			app_write_all(fd, "ping", 4);
			app_read_full(fd, buf, 4);
		}
		if (p.fd != fd)
			atomic_store(ring.cq_head, atomic_load(ring.cq_tail));
		app_flag_set(1, 1);
		LOG("told %d", poll(&p, 1, -1));
		app_hear(fd, 4);
		SAY(fd, "done");
	}
	app_sync();
	close(fd);
}
