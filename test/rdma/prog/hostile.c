// SPDX-License-Identifier: BSD-2-Clause
/*
 * hostile.c - what a hostile peer might do to a rail (mode hostile and mode flood of pair.c). Each
 * deed is a few work requests, of which the last one makes the victim end the rail.
 */
#include "hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rsock/clock.h>
#include <rsock/splitmix.h>

#define BYTES 4096u
#define DEPTH 64u
#define STILL_S 3 /* if nothing was taken for so long, the victim takes nothing now */
#define FAIL(what)                                                                                 \
	do {                                                                                       \
		fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));                       \
		_Exit(1);                                                                          \
	} while (0)

struct hostile {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes;
	uint32_t under_way;
};

static void step(struct hostile *h, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(h->channel, &ev))
		FAIL("event");
	if (ev->event != wanted) {
		fprintf(stderr, "hostile: %s\n", rdma_event_str(ev->event));
		_Exit(1);
	}
	rdma_ack_cm_event(ev);
}

struct hostile *hostile_connect(const struct sockaddr *to, const void *hello, uint8_t bytes)
{
	struct hostile *h = calloc(1, sizeof(*h));
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = 64,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct rdma_conn_param param = { .private_data = hello,
					 .private_data_len = bytes,
					 .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 6,
					 .rnr_retry_count = 7 };
	struct sockaddr_storage at;

	if (!h)
		FAIL("memory");
	memcpy(&at, to,
	       to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	h->bytes = aligned_alloc(4096, BYTES);
	h->channel = rdma_create_event_channel();
	if (!h->bytes || !h->channel || rdma_create_id(h->channel, &h->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(h->id, NULL, (struct sockaddr *)&at, 2000))
		FAIL("address");
	step(h, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(h->id, 2000))
		FAIL("route");
	step(h, RDMA_CM_EVENT_ROUTE_RESOLVED);
	h->pd = ibv_alloc_pd(h->id->verbs);
	h->cq = ibv_create_cq(h->id->verbs, 256, NULL, NULL, 0);
	h->mr = h->pd ? ibv_reg_mr(h->pd, h->bytes, BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	attr.send_cq = attr.recv_cq = h->cq;
	if (!h->cq || !h->mr || rdma_create_qp(h->id, h->pd, &attr) || rdma_connect(h->id, &param))
		FAIL("connect");
	step(h, RDMA_CM_EVENT_ESTABLISHED);
	return h;
}

void hostile_free(struct hostile *h)
{
	rdma_disconnect(h->id);
	rdma_destroy_qp(h->id);
	ibv_dereg_mr(h->mr);
	ibv_destroy_cq(h->cq);
	ibv_dealloc_pd(h->pd);
	rdma_destroy_id(h->id);
	rdma_destroy_event_channel(h->channel);
	free(h->bytes);
	free(h);
}

/*
 * Posts one work request and waits for its completion. Its status does not matter: the victim's
 * side is what is tested.
 */
static void send_one(struct hostile *h, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (ibv_post_send(h->id->qp, wr, &bad))
		return;
	while (ibv_poll_cq(h->cq, 1, &wc) == 0)
		;
}

static void post(struct hostile *h, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t to,
		 uint32_t rkey, uint32_t imm)
{
	struct ibv_sge sge = { .addr = (uintptr_t)h->bytes, .length = bytes, .lkey = h->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = bytes != 0, .imm_data = htonl(imm)
	};

	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = rkey;
	send_one(h, &wr);
}

static void imm(struct hostile *h, uint32_t value)
{
	post(h, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, value);
}

static void far_stream(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	imm(h, 0x7fff | 1u << 28);
}

static void many_units(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	imm(h, 257u << 15);
}

static void units_twice(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	/* The first immediate already announces units that do not exist. */
	imm(h, 200u << 15);
	imm(h, 200u << 15);
}

static void no_kind(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	imm(h, 3u << 24);
}

static void odd_bits(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	imm(h, 1u << 31);
}

static void room_for_nothing(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	imm(h, 4u << 15 | 1u << 24);
}

static void message(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	post(h, IBV_WR_SEND, 0, 0, 0, 0);
}

static void long_message(struct hostile *h, const struct hostile_target *t)
{
	(void)t;
	post(h, IBV_WR_SEND, 512, 0, 0, 0);
}

static void outside_ring(struct hostile *h, const struct hostile_target *t)
{
	post(h, IBV_WR_RDMA_WRITE, 512, t->segment + t->ring_off + t->ring_bytes - 64, t->ring_rkey,
	     0);
}

static void others_key(struct hostile *h, const struct hostile_target *t)
{
	post(h, IBV_WR_RDMA_WRITE, 512, t->segment, t->ctl_rkey, 0);
}

static void no_key(struct hostile *h, const struct hostile_target *t)
{
	post(h, IBV_WR_RDMA_WRITE, 512, t->segment + t->ring_off, 0x01020304, 0);
}

static void no_read(struct hostile *h, const struct hostile_target *t)
{
	post(h, IBV_WR_RDMA_READ, 512, t->indirect, t->indirect_rkey, 0);
}

/* Address and key are right, but they were given to another peer. */
static void others_ring(struct hostile *h, const struct hostile_target *t)
{
	memset(h->bytes, 0x5a, BYTES);
	post(h, IBV_WR_RDMA_WRITE, BYTES, t->other.segment + t->ring_off, t->other.ring_rkey, 0);
}

static void others_controls(struct hostile *h, const struct hostile_target *t)
{
	memset(h->bytes, 0x5a, BYTES);
	post(h, IBV_WR_RDMA_WRITE, 256, t->other.segment + t->ctl_off, t->other.ctl_rkey, 0);
}

static void others_indirect(struct hostile *h, const struct hostile_target *t)
{
	memset(h->bytes, 0x5a, BYTES);
	post(h, IBV_WR_RDMA_WRITE_WITH_IMM, 512, t->other.indirect, t->other.indirect_rkey,
	     1u << 28);
}

static void others_read(struct hostile *h, const struct hostile_target *t)
{
	post(h, IBV_WR_RDMA_READ, BYTES, t->other.segment + t->ring_off, t->other.ring_rkey, 0);
}

static void others_word(struct hostile *h, const struct hostile_target *t)
{
	struct ibv_sge sge = { .addr = (uintptr_t)h->bytes, .length = 8, .lkey = h->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .sg_list = &sge,
				  .num_sge = 1 };

	wr.wr.atomic.remote_addr = t->other.segment + t->ctl_off;
	wr.wr.atomic.rkey = t->other.ctl_rkey;
	wr.wr.atomic.compare_add = 1;
	send_one(h, &wr);
}

/* Writes an entry into the indirect buffer; its words are: offset (2 words), sid, off, bytes. */
static void entry(struct hostile *h, const struct hostile_target *t, uint32_t sid, uint32_t off,
		  uint32_t bytes)
{
	uint32_t word[16] = { 0, 0, sid, off, bytes };

	memset(h->bytes, 0x5a, BYTES);
	memcpy(h->bytes, word, sizeof(word));
	post(h, IBV_WR_RDMA_WRITE_WITH_IMM, 512, t->indirect, t->indirect_rkey,
	     8u << 15 | 1u << 28);
}

static void entry_far_stream(struct hostile *h, const struct hostile_target *t)
{
	entry(h, t, 0x10000, 0, 64);
}

static void entry_outside(struct hostile *h, const struct hostile_target *t)
{
	entry(h, t, 0, (uint32_t)t->ring_bytes - 64, 128);
}

static void entry_beyond_reach(struct hostile *h, const struct hostile_target *t)
{
	entry(h, t, 900, 0, 64);
}

/* Writes random bytes where writing is allowed, then disconnects. */
static void garbage(struct hostile *h, const struct hostile_target *t)
{
	const char *given = getenv("RSOCK_SEED");
	uint64_t dice = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

	fprintf(stderr, "hostile: garbage of RSOCK_SEED=%" PRIu64 "\n", dice);
	for (uint32_t i = 0; i < 64; i++) {
		for (uint32_t k = 0; k < BYTES; k++)
			h->bytes[k] = (uint8_t)rsk_splitmix_next(&dice);
		post(h, IBV_WR_RDMA_WRITE, BYTES, t->segment + t->ring_off + i * 512, t->ring_rkey,
		     0);
		post(h, IBV_WR_RDMA_WRITE_WITH_IMM, 256, t->segment + t->ctl_off, t->ctl_rkey,
		     (i & 3) << 28);
		imm(h, 2u << 24);
	}
	rdma_disconnect(h->id);
}

static const struct {
	const char *name;
	void (*deed)(struct hostile *h, const struct hostile_target *t);
} deeds[] = {
	{ "a stream that there is not", far_stream },
	{ "more units than there are", many_units },
	{ "units twice", units_twice },
	{ "a kind that there is not", no_kind },
	{ "bits that mean nothing", odd_bits },
	{ "room that was not taken", room_for_nothing },
	{ "a message", message },
	{ "a message with content", long_message },
	{ "beyond a ring's end", outside_ring },
	{ "with another one's key", others_key },
	{ "with no key", no_key },
	{ "into another rail's ring, with its key", others_ring },
	{ "into another rail's control blocks, with their key", others_controls },
	{ "into another rail's indirect buffer, with its key", others_indirect },
	{ "a read of another rail's ring, with its key", others_read },
	{ "an atomic operation in another rail's control blocks, with their key", others_word },
	{ "a read of what may not be read", no_read },
	{ "an entry of a stream that there is not", entry_far_stream },
	{ "an entry beyond a ring's end", entry_outside },
	{ "an entry for memory that is not there", entry_beyond_reach },
	{ "garbage", garbage },
};

uint32_t hostile_deeds(void)
{
	return sizeof(deeds) / sizeof(*deeds);
}

const char *hostile_do(struct hostile *h, uint32_t number, const struct hostile_target *t)
{
	deeds[number].deed(h, t);
	return deeds[number].name;
}

/* ---- a flood of notices ---- */
static uint64_t now_s(void)
{
	return rsk_monotonic_ns() / 1000000000u;
}

/* Posts as many notices as the send queue has room for; returns how many completed meanwhile. */
static uint32_t turn(struct hostile *h, uint32_t more)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .imm_data = htonl(1u << 28) },
			   *bad;
	struct ibv_wc wc[DEPTH];
	int n;

	for (; more && h->under_way < DEPTH; more--, h->under_way++)
		if (ibv_post_send(h->id->qp, &wr, &bad))
			FAIL("post");
	n = ibv_poll_cq(h->cq, DEPTH, wc);
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "hostile: notice: %s\n", ibv_wc_status_str(wc[i].status));
			_Exit(1);
		}
	h->under_way -= n > 0 ? (uint32_t)n : 0;
	return n > 0 ? (uint32_t)n : 0;
}

uint32_t hostile_flood(struct hostile *h, uint32_t most)
{
	uint64_t since = now_s();
	uint32_t taken = 0, n;

	while (taken < most && now_s() - since <= STILL_S) {
		n = turn(h, most - taken - h->under_way);
		taken += n;
		if (n)
			since = now_s();
	}
	return taken;
}

bool hostile_taken(struct hostile *h, uint32_t seconds)
{
	uint64_t until = now_s() + seconds;

	while (h->under_way && now_s() < until)
		turn(h, 0);
	return !h->under_way;
}

bool hostile_notice(struct hostile *h, uint32_t seconds)
{
	turn(h, 1);
	return hostile_taken(h, seconds);
}

void hostile_end(struct hostile *h)
{
	imm(h, 1u << 31);
}
