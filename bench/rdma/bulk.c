/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bulk.c - measures a lower bound for a bulk transfer between hosts without copies of ours. Run by
 * bench/rdma_rows.py.
 *
 * 	rdma_bulk server HOST PORT
 * 	rdma_bulk client HOST PORT SIZE SECONDS each|once
 *
 * A blocking sender (the client) hashes its buffer and advertises it. The receiver obtains it by
 * RDMA READ straight into its own buffer, hashes what it has, reads again if the hash differs, and
 * answers; then the sender continues. It uses bare librdmacm and the library's hash; both ends
 * sleep for completions. "each": both buffers, which belong to the application, are registered for
 * each message; "once": before the first, which is the best case of a registration cache. The
 * client prints one line of JSON.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/clock.h>

#include "hash.h"

#define BULK_SEED 42
#define BULK_MOST (64u << 20)
#define BULK_TRIES 16 /* attempts for a message whose hash stays wrong */

/*
 * The client's message: what may be read, and its hash; the server's: size and hash of what it has.
 * 0 bytes: the end.
 */
struct bulk_word {
	uint64_t addr;
	uint64_t hash;
	uint32_t rkey;
	uint32_t size;
	uint32_t each;
	uint32_t pad;
};

struct bulk {
	struct rdma_cm_id *id; /* owned */
	struct bulk_word *out; /* owned, registered */
	struct bulk_word *in;  /* owned, registered */
	struct ibv_mr *out_mr; /* owned */
	struct ibv_mr *in_mr;  /* owned */
	uint8_t *buf;	       /* owned; stands for the application's buffer */
	struct ibv_mr *mr;     /* owned; registration of buf, NULL: not registered */
	struct rsk_key key;
};

static _Noreturn void bulk_die(const char *what)
{
	fprintf(stderr, "rdma_bulk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void bulk_must(bool good, const char *what)
{
	if (!good)
		bulk_die(what);
}

static double bulk_now(void)
{
	return (double)rsk_monotonic_ns() / 1e9;
}

static void *bulk_pages(size_t size)
{
	void *p = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);

	bulk_must(p, "memory");
	memset(p, 0, size);
	return p;
}

static void bulk_sent(struct bulk *b, const char *what)
{
	struct ibv_wc wc;

	bulk_must(rdma_get_send_comp(b->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, what);
}

/*
 * One receive is always posted ahead of what the peer may send: before anything is sent that the
 * peer answers.
 */
static void bulk_expect(struct bulk *b)
{
	bulk_must(!rdma_post_recv(b->id, NULL, b->in, sizeof(*b->in), b->in_mr), "post a receive");
}

static bool bulk_hear(struct bulk *b)
{
	struct ibv_wc wc;

	return rdma_get_recv_comp(b->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
}

static void bulk_say(struct bulk *b)
{
	bulk_must(!rdma_post_send(b->id, NULL, b->out, sizeof(*b->out), b->out_mr, 0), "send");
	bulk_sent(b, "send");
}

static struct rdma_cm_id *bulk_end(const char *host, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	bulk_must(!rdma_getaddrinfo(host, port, &hints, &at), "find the address");
	bulk_must(!rdma_create_ep(&id, at, NULL, &attr), "make the end");
	rdma_freeaddrinfo(at);
	return id;
}

static void bulk_begin(struct bulk *b)
{
	rsk_key_init(&b->key, BULK_SEED);
	b->out = bulk_pages(sizeof(*b->out));
	b->in = bulk_pages(sizeof(*b->in));
	b->out_mr = rdma_reg_msgs(b->id, b->out, sizeof(*b->out));
	b->in_mr = rdma_reg_msgs(b->id, b->in, sizeof(*b->in));
	bulk_must(b->out_mr && b->in_mr, "register messages");
	bulk_expect(b);
}

static void bulk_free(struct bulk *b)
{
	if (b->mr)
		rdma_dereg_mr(b->mr);
	rdma_dereg_mr(b->out_mr);
	rdma_dereg_mr(b->in_mr);
	free(b->buf);
	free(b->out);
	free(b->in);
}

static void bulk_unregister(struct bulk *b)
{
	rdma_dereg_mr(b->mr);
	b->mr = NULL;
}

/* Receives one whole message. */
static void bulk_take(struct bulk *b)
{
	struct bulk_word w = *b->in;

	bulk_must(w.size <= BULK_MOST, "size");
	if (!b->buf)
		b->buf = bulk_pages(w.size);
	if (!b->mr)
		b->mr = rdma_reg_msgs(b->id, b->buf, w.size);
	bulk_must(b->mr, "register the buffer");
	for (int tries = 0;; tries++) {
		bulk_must(!rdma_post_read(b->id, NULL, b->buf, w.size, b->mr, 0, w.addr, w.rkey),
			  "READ");
		bulk_sent(b, "READ");
		b->out->hash = rsk_hash_payload(&b->key, b->buf, w.size);
		if (b->out->hash == w.hash)
			break;
		errno = EBADMSG;
		bulk_must(tries < BULK_TRIES, "a message that is never whole");
	}
	b->out->size = w.size;
	if (w.each)
		bulk_unregister(b);
}

static int bulk_serve(const char *host, const char *port)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_id *listener = bulk_end(host, port, RAI_PASSIVE);
	struct bulk b = { 0 };

	bulk_must(!rdma_listen(listener, 1), "listen");
	printf("listening\n");
	fflush(stdout);
	bulk_must(!rdma_get_request(listener, &b.id), "take the connection");
	bulk_begin(&b);
	bulk_must(!rdma_accept(b.id, &param), "accept");
	while (bulk_hear(&b) && b.in->size) {
		bulk_take(&b);
		bulk_expect(&b);
		bulk_say(&b);
	}
	rdma_disconnect(b.id);
	bulk_free(&b);
	rdma_destroy_ep(b.id);
	rdma_destroy_ep(listener);
	return 0;
}

/*
 * Sends one message. Each differs from the one before, which therefore cannot be mistaken for it.
 */
static void bulk_give(struct bulk *b, uint32_t size, bool each, uint64_t number)
{
	memcpy(b->buf + size / 2, &number, sizeof(number));
	if (!b->mr)
		b->mr = rdma_reg_read(b->id, b->buf, size);
	bulk_must(b->mr, "register the buffer");
	*b->out = (struct bulk_word){
		.addr = (uintptr_t)b->buf,
		.hash = rsk_hash_payload(&b->key, b->buf, size),
		.rkey = b->mr->rkey,
		.size = size,
		.each = each,
	};
	bulk_say(b);
	bulk_must(bulk_hear(b), "the answer");
	errno = EBADMSG;
	bulk_must(b->in->size == size && b->in->hash == b->out->hash, "the answer");
	bulk_expect(b);
	if (each)
		bulk_unregister(b);
}

static int bulk_ask(const char *host, const char *port, uint32_t size, double seconds, bool each)
{
	struct rdma_conn_param param = { .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7 };
	struct bulk b = { .id = bulk_end(host, port, 0) };
	uint64_t number = 0;
	double begun, took;

	bulk_begin(&b);
	b.buf = bulk_pages(size);
	bulk_must(!rdma_connect(b.id, &param), "connect");
	/* Now the connection is made and the pages are present. */
	bulk_give(&b, size, each, number);
	begun = bulk_now();
	do {
		bulk_give(&b, size, each, ++number);
		took = bulk_now() - begun;
	} while (took < seconds);
	printf("{\"size_bytes\": %u, \"messages\": %llu, "
	       "\"seconds\": %.6f, \"bits_per_s\": %.0f}\n",
	       size, (unsigned long long)number, took, (double)number * size * 8 / took);
	*b.out = (struct bulk_word){ 0 };
	bulk_say(&b);
	rdma_disconnect(b.id);
	bulk_free(&b);
	rdma_destroy_ep(b.id);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "server"))
		return bulk_serve(argv[2], argv[3]);
	if (argc == 7 && !strcmp(argv[1], "client")) {
		unsigned long size = strtoul(argv[4], NULL, 10);
		double seconds = strtod(argv[5], NULL);

		if (size >= 16 && size <= BULK_MOST && seconds > 0 &&
		    (!strcmp(argv[6], "each") || !strcmp(argv[6], "once")))
			return bulk_ask(argv[2], argv[3], (uint32_t)size, seconds,
					argv[6][0] == 'e');
	}
	fprintf(stderr,
		"rdma_bulk server HOST PORT\nrdma_bulk client HOST PORT SIZE SECONDS each|once\n");
	return 2;
}
