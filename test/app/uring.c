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

static int ring_do(struct ring *ring, uint8_t op, int fd, void *data, uint32_t len)
{
	uint32_t tail = atomic_load(ring->sq_tail), at = tail & ring->sq_mask;

	memset(&ring->sqes[at], 0, sizeof(ring->sqes[at]));
	ring->sqes[at].opcode = op;
	ring->sqes[at].fd = fd;
	ring->sqes[at].addr = (uintptr_t)data;
	ring->sqes[at].len = len;
	ring->sq_array[at] = at;
	atomic_store(ring->sq_tail, tail + 1);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		app_die("io_uring_enter: %s", app_errname(errno));
	uint32_t head = atomic_load(ring->cq_head);

	if (head == atomic_load(ring->cq_tail))
		app_die("io_uring: no completion");
	int res = ring->cqes[head & ring->cq_mask].res;

	atomic_store(ring->cq_head, head + 1);
	return res;
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

CASE(ring_first, 0, "io_uring set up before the stream is opened")
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
