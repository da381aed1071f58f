/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring.c - tests a program that sets up io_uring: from then on its streams may move bytes where no
 * hook sees them.
 */
#include "app.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

static char buf[1 << 20];

struct ring {
	int fd;
	_Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
	uint32_t *sq_array, sq_mask, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

/* False if the kernel has no io_uring, or forbids it. */
static bool ring_open(struct ring *ring)
{
	struct io_uring_params p = { 0 };

	ring->fd = (int)syscall(SYS_io_uring_setup, 8, &p);
	if (ring->fd < 0)
		return false;
	size_t sq_len = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
	size_t cq_len = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *sq = mmap(NULL, sq_len, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, cq_len, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			IORING_OFF_CQ_RING);

	ring->sqes = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			  MAP_SHARED, ring->fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)ring->sqes == MAP_FAILED)
		app_die("io_uring: mmap");
	ring->sq_tail = (void *)(sq + p.sq_off.tail);
	ring->sq_array = (void *)(sq + p.sq_off.array);
	memcpy(&ring->sq_mask, sq + p.sq_off.ring_mask, sizeof(uint32_t));
	ring->cq_head = (void *)(cq + p.cq_off.head);
	ring->cq_tail = (void *)(cq + p.cq_off.tail);
	memcpy(&ring->cq_mask, cq + p.cq_off.ring_mask, sizeof(uint32_t));
	ring->cqes = (void *)(cq + p.cq_off.cqes);
	return true;
}

/* Submits @n entries, by one call. Their results are in the order of completion. */
static void ring_submit(struct ring *ring, const struct io_uring_sqe *entries, uint32_t n, int *res)
{
	uint32_t tail = atomic_load(ring->sq_tail), head = atomic_load(ring->cq_head);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (tail + i) & ring->sq_mask;

		ring->sqes[at] = entries[i];
		ring->sq_array[at] = at;
	}
	atomic_store(ring->sq_tail, tail + n);
	if (syscall(SYS_io_uring_enter, ring->fd, n, n, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		app_die("io_uring_enter: %s", app_errname(errno));
	for (uint32_t i = 0; i < n; i++, head++) {
		const struct io_uring_cqe *cqe = &ring->cqes[head & ring->cq_mask];

		if (head == atomic_load(ring->cq_tail))
			app_die("io_uring: no completion");
		if (cqe->user_data >= n)
			app_die("io_uring: a completion of %u", (unsigned int)cqe->user_data);
		res[cqe->user_data] = cqe->res;
	}
	atomic_store(ring->cq_head, head);
}

static int ring_one(struct ring *ring, struct io_uring_sqe entry)
{
	int res;

	entry.user_data = 0;
	ring_submit(ring, &entry, 1, &res);
	return res;
}

static int ring_do(struct ring *ring, uint8_t op, int fd, void *data, uint32_t len)
{
	return ring_one(ring,
			(struct io_uring_sqe){
				.opcode = op, .fd = fd, .addr = (uintptr_t)data, .len = len });
}

static struct io_uring_sqe epoll_entry(int set, int op, int fd, struct epoll_event *ev)
{
	return (struct io_uring_sqe){ .opcode = IORING_OP_EPOLL_CTL,
				      .fd = set,
				      .len = (uint32_t)op,
				      .off = (uint32_t)fd,
				      .addr = (uintptr_t)ev };
}

/* By the ring if there is one, otherwise by epoll_ctl(): 0 or -errno. */
static int epoll_by(struct ring *ring, int set, int op, int fd, struct epoll_event *ev)
{
	if (ring)
		return ring_one(ring, epoll_entry(set, op, fd, ev));
	return epoll_ctl(set, op, fd, ev) < 0 ? -errno : 0;
}

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

CASE(epoll_ctl, DIRECT, "epoll_ctl() by io_uring, as libuv does it, then ordinary calls")
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 }, out;
	struct ring made, *ring = &made;
	int set = epoll_create1(EPOLL_CLOEXEC), len = 0;

	if (!ring_open(&made))
		ring = NULL;
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		int spare = dup(fd);

		LOG("add %d", epoll_by(ring, set, EPOLL_CTL_ADD, fd, &ev));
		LOG("again %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_ADD, fd, &ev)));
		LOG("not there %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_MOD, spare, &ev)));
		LOG("no set %s", app_errname(-epoll_by(ring, fd, EPOLL_CTL_ADD, spare, &ev)));
		close(spare);
		LOG("closed %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_ADD, spare, &ev)));
		LOG("nothing %d", epoll_wait(set, &out, 1, 0));
		app_flag_set(0, 1);
		for (uint32_t i = 0; i < 400; i++) {
			len = epoll_wait(set, &out, 1, -1);
			if (len != 1 || out.data.u64 != 7 + i || !(out.events & EPOLLIN))
				app_die("wait %u: %d, %x", i, len, out.events);
			if (recv(fd, buf, 4, 0) != 4 || send(fd, buf, 4, 0) != 4)
				app_die("message %u: %s", i, app_errname(errno));
			ev.data.u64 = 8 + i;
			ev.events = i & 1 ? EPOLLIN : EPOLLIN | EPOLLET;
			if (epoll_by(ring, set, EPOLL_CTL_MOD, fd, &ev) != 0)
				app_die("mod %u", i);
		}
		LOG("del %d", epoll_by(ring, set, EPOLL_CTL_DEL, fd, NULL));
		LOG("again %s", app_errname(-epoll_by(ring, set, EPOLL_CTL_DEL, fd, NULL)));
		SAY(fd, "now");
		app_hear(fd, 4);
		LOG("nothing %d", epoll_wait(set, &out, 1, 50));
	} else {
		char text[4];
		int good = 0;

		app_flag_wait(0);
		for (uint32_t i = 0; i < 400; i++) {
			memcpy(text, &i, 4);
			app_write_all(fd, text, 4);
			good += app_read_full(fd, text, 4) == 4 && !memcmp(text, &i, 4);
		}
		LOG("good %d", good);
		app_hear(fd, 3);
		SAY(fd, "more");
	}
	app_sync();
	app_close(fd);
	close(set);
}

CASE(epoll_ctl_many, DIRECT, "several registrations by one io_uring_enter(), in order")
{
	struct epoll_event ev[3] = { { .events = EPOLLIN, .data.u64 = 1 },
				     { .events = EPOLLIN | EPOLLOUT, .data.u64 = 2 },
				     { .events = EPOLLIN, .data.u64 = 3 } };
	struct epoll_event out[4];
	struct ring ring;
	int set = epoll_create1(EPOLL_CLOEXEC), pipes[2];
	bool have = ring_open(&ring);
	int fd = app_open(WARM | NODELAY), res[4] = { 0 };

	if (pipe(pipes) < 0)
		app_die("pipe");
	if (SRV) {
		struct io_uring_sqe e[] = { epoll_entry(set, EPOLL_CTL_ADD, fd, &ev[0]),
					    epoll_entry(set, EPOLL_CTL_MOD, fd, &ev[1]),
					    epoll_entry(set, EPOLL_CTL_ADD, pipes[0], &ev[2]),
					    epoll_entry(set, EPOLL_CTL_ADD, fd, &ev[0]) };

		for (uint32_t i = 0; i < 4; i++)
			e[i].user_data = i;
		if (have) {
			ring_submit(&ring, e, 4, res);
		} else {
			res[0] = epoll_by(NULL, set, EPOLL_CTL_ADD, fd, &ev[0]);
			res[1] = epoll_by(NULL, set, EPOLL_CTL_MOD, fd, &ev[1]);
			res[2] = epoll_by(NULL, set, EPOLL_CTL_ADD, pipes[0], &ev[2]);
			res[3] = epoll_by(NULL, set, EPOLL_CTL_ADD, fd, &ev[0]);
		}
		for (int i = 0; i < 4; i++)
			LOG("result %s", app_errname(-res[i]));
		int n = epoll_wait(set, out, 4, 0);

		LOG("%d: %x %d", n, out[0].events, (int)out[0].data.u64);
		if (write(pipes[1], "x", 1) != 1)
			app_die("write");
		LOG("%d", epoll_wait(set, out, 4, 0));
		app_flag_set(0, 1);
		R(app_recv_pattern(fd, 300000, 10000, 1));
	} else {
		app_flag_wait(0);
		R(app_send_pattern(fd, 300000, 10000, 1));
	}
	app_sync();
	app_close(fd);
	close(set);
	close(pipes[0]);
	close(pipes[1]);
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
