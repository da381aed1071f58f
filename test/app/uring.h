/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring.h - a ring, for the cases about io_uring by syscall(); included by uring.c and uringset.c.
 */
#ifndef APP_URING_H
#define APP_URING_H

#include "app.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

struct ring {
	int fd;
	_Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
	uint32_t *sq_array, sq_mask, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

/* False if the kernel has no io_uring, or forbids it. */
static inline bool ring_open(struct ring *ring)
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
static inline void ring_submit(struct ring *ring, const struct io_uring_sqe *entries, uint32_t n,
			       int *res)
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

/* For what completes later, any number of times. */
static inline void ring_submit_only(struct ring *ring, const struct io_uring_sqe *entry)
{
	uint32_t tail = atomic_load(ring->sq_tail), at = tail & ring->sq_mask;

	ring->sqes[at] = *entry;
	ring->sq_array[at] = at;
	atomic_store(ring->sq_tail, tail + 1);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0) != 1)
		app_die("io_uring_enter: %s", app_errname(errno));
}

static inline int ring_one(struct ring *ring, struct io_uring_sqe entry)
{
	int res;

	entry.user_data = 0;
	ring_submit(ring, &entry, 1, &res);
	return res;
}

static inline int ring_do(struct ring *ring, uint8_t op, int fd, void *data, uint32_t len)
{
	return ring_one(ring,
			(struct io_uring_sqe){
				.opcode = op, .fd = fd, .addr = (uintptr_t)data, .len = len });
}

#endif
