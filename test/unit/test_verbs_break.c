// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_break.c - tests the end of a rail: what has come by its indirect buffer, and was
 * acknowledged to the sender's queue pair, is copied to its place, whatever has become of the rail
 * since. The queues are the test's.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dev.h"
#include "post.h"
#include "rail.h"

enum {
	RING = RSK_SEG_MIN_RING,
	QP = 77,
	COMPLETIONS = 64
};

/* ---- libibverbs and librdmacm, as far as the end of a rail uses them ---- */

static struct ibv_wc queue[COMPLETIONS];
static int queued;

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = queued < max ? queued : max;

	memcpy(wc, queue, (size_t)n * sizeof(*wc));
	memmove(queue, queue + n, (size_t)(queued - n) * sizeof(*wc));
	queued -= n;
	return n;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **ctx)
{
	return -1; /* there is none */
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return 0;
}

/* ---- a rail that is up ---- */

static struct rsk_verbs verbs;
static uint64_t counts[RSK_STATS_VERBS_COUNT];
static struct rsk_vdev dev;
static struct rsk_verbs_rail r;
static struct rsk_rail ours;
static uint32_t told, news_n;
static uint64_t put;

static void heard(void *ctx, void *rail, const uint8_t word[static RSK_VERBS_MSG_BYTES])
{
	told++;
}

static void news(void *ctx, void *rail, uint32_t sid, uint32_t what)
{
	news_n++;
}

static void call(void *ctx)
{
}

static void begin(void)
{
	static struct ibv_context context = { .ops = { .poll_cq = poll_cq,
						       .post_srq_recv = post_srq_recv } };
	static struct ibv_cq cq = { .context = &context };
	static struct ibv_srq srq = { .context = &context };
	static struct rsk_vcq queue_of = { .cq = &cq, .rails = 1 };
	static struct rdma_cm_id id;
	static struct rsk_seg seg;
	static struct ibv_qp qp;

	seg.own = (struct rsk_seg_geometry){ .ring_bytes = RING, .streams = 1 };
	seg.window_streams = 1;
	atomic_store(&seg.reach, 1);
	seg.rail.segment = calloc(1, rsk_seg_ring_off(&seg.own, 1));
	verbs.host = (struct rsk_verbs_host){
		.counts = counts, .heard = heard, .call = call, .news = news
	};
	dev.v = &verbs;
	dev.cqs = &queue_of;
	dev.cqs_n = dev.cq_rails = 1;
	dev.recvs = COMPLETIONS;
	pthread_mutex_init(&dev.lock, NULL);
	pthread_mutex_init(&r.lock, NULL);
	pthread_mutex_init(&r.in_lock, NULL);
	atomic_store(&verbs.devs, &dev);
	r.v = &verbs;
	r.seg = &seg;
	r.rail = &ours;
	r.dev = &dev;
	r.buf = calloc(1, sizeof(*r.buf));
	r.id = &id;
	r.qp = &qp;
	r.srq = &srq;
	r.recv_cq = &queue_of;
	r.cq = &cq;
	r.qp_num = QP;
	r.live = true;
	r.state = RSK_RAIL_UP;
	rsk_vdev_add(&dev, &r);
}

/* Completes a message of the peer; its completion waits to be taken. */
static void completes(uint32_t units)
{
	cr_assert_lt(queued, COMPLETIONS);
	queue[queued++] = (struct ibv_wc){ .status = IBV_WC_SUCCESS,
					   .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
					   .qp_num = QP,
					   .imm_data = htonl(units << 15 | RSK_IMM_DATA << 24) };
}

/* Sends a cell of the stream's ring. */
static void cell(uint32_t index)
{
	uint8_t bytes[RSK_CELL_BYTES];
	uint32_t n = sizeof(bytes), units;

	memset(bytes, 1 + (int)index, sizeof(bytes));
	units = rsk_indirect_put(r.buf->in, put, RSK_INDIRECT_UNITS - (uint32_t)put, 0,
				 index * RSK_CELL_BYTES, bytes, &n);
	cr_assert_eq(units, 2);
	put += units;
	completes(units);
}

static void word(void)
{
	uint8_t bytes[RSK_VERBS_MSG_BYTES] = { 9 };
	uint32_t n = sizeof(bytes), units;

	units = rsk_indirect_put(r.buf->in, put, RSK_INDIRECT_UNITS - (uint32_t)put,
				 RSK_INDIRECT_WORDS, 0, bytes, &n);
	cr_assert_eq(n, sizeof(bytes));
	put += units;
	completes(units);
}

static void are_there(uint32_t cells)
{
	const uint8_t *ring = r.seg->rail.segment + rsk_seg_ring_off(&r.seg->own, 0);

	for (uint32_t i = 0; i < cells; i++)
		for (uint32_t k = 0; k < RSK_CELL_BYTES; k++)
			cr_assert_eq(ring[i * RSK_CELL_BYTES + k], 1 + i, "cell %u was lost", i);
	cr_assert_eq(ring[cells * RSK_CELL_BYTES], 0);
}

/* ---- the tests ---- */

Test(verbs_break, what_has_come_is_there)
{
	begin();
	for (uint32_t i = 0; i < 5; i++)
		cell(i);
	rsk_rail_break(&r);
	are_there(5);
	cr_expect_eq(news_n, 5);
	cr_expect_eq(atomic_load(&r.in_avail), 0);
}

/* Sends have failed meanwhile: that says nothing about what has come. */
Test(verbs_break, of_one_that_has_failed)
{
	begin();
	for (uint32_t i = 0; i < 5; i++)
		cell(i);
	rsk_rail_fail(&r, -ETIMEDOUT);
	rsk_rail_break(&r);
	are_there(5);
	cr_expect_eq(atomic_load(&r.in_avail), 0);
}

/* A thread of the program has taken the completions, and found that the rail has failed. */
Test(verbs_break, that_others_have_taken)
{
	begin();
	for (uint32_t i = 0; i < 5; i++)
		cell(i);
	rsk_rail_fail(&r, -ETIMEDOUT);
	rsk_verbs_poll(&verbs, false);
	cell(5);
	rsk_rail_break(&r);
	are_there(6);
}

/* Control messages are not delivered any more; stream data behind them still is. */
Test(verbs_break, behind_words)
{
	begin();
	cell(0);
	for (uint32_t i = 1; i < 9; i++) {
		word();
		word();
		cell(i);
	}
	rsk_verbs_poll(&verbs, false);
	rsk_rail_break(&r);
	are_there(9);
	cr_expect_eq(told, 0);
	cr_expect_eq(r.heard.n, 0);
	cr_expect_eq(atomic_load(&r.in_avail), 0);
}

/* An invalid entry ends it, and so does one that was reported and has not come. */
Test(verbs_break, nonsense)
{
	begin();
	cell(0);
	completes(RSK_INDIRECT_UNITS - 2);
	rsk_rail_break(&r);
	are_there(1);
	cr_expect_eq(atomic_load(&r.in_avail), 0);
}
