/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c - see drive.h. */
#include "drive.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Most steps of a ready connection before the others get their turn. */
#define RSK_TURNS 16

static unsigned int rsk_wants(const struct rsk_conn *c)
{
	return atomic_load_explicit(&c->wants, memory_order_acquire);
}

struct rsk_half {
	struct rsk_conn *c;
	bool nonblock;
	int rc;
};

static bool rsk_again(int rc, bool nonblock)
{
	return rc == -EINTR || (nonblock && rc == -EAGAIN);
}

static void *rsk_half_receive(void *arg)
{
	struct rsk_half *h = arg;

	while (rsk_wants(h->c) & RSK_IN) {
		int rc = rsk_conn_rx(h->c);

		if (rc > 0 || rsk_again(rc, h->nonblock))
			continue;
		h->rc = rc;
		/* Also wakes the sending half. */
		shutdown(h->c->fd, SHUT_RDWR);
		break;
	}
	return NULL;
}

/* One thread receives and one sends, as in any full-duplex program with blocking sockets. */
static int rsk_drive_duplex(struct rsk_conn *c, bool nonblock)
{
	struct rsk_half h = { .c = c, .nonblock = nonblock };
	pthread_t receiver;
	int rc = 0;
	int err = pthread_create(&receiver, NULL, rsk_half_receive, &h);

	if (err)
		return -err;
	while (rsk_wants(c) & RSK_OUT) {
		rc = rsk_conn_tx(c, 0);
		if (rc > 0 || rsk_again(rc, nonblock))
			continue;
		shutdown(c->fd, SHUT_RDWR);
		break;
	}
	pthread_join(receiver, NULL);
	if (h.rc < 0)
		return h.rc;
	return rc < 0 ? rc : 0;
}

int rsk_drive_blocking(struct rsk_conn *c, bool nonblock)
{
	for (;;) {
		unsigned int wants = rsk_wants(c);
		int rc;

		if (!wants)
			return 0;
		if (wants == (RSK_IN | RSK_OUT))
			rc = rsk_drive_duplex(c, nonblock);
		else
			rc = wants & RSK_IN ? rsk_conn_rx(c) : rsk_conn_tx(c, 0);
		if (rc < 0 && !rsk_again(rc, nonblock))
			return rc;
	}
}

int rsk_loop_init(struct rsk_loop *loop, const struct rsk_loop_ops *ops, void *owner,
		  enum rsk_wait_kind kind, bool nonblock, unsigned int capacity, int listener)
{
	int rc;

	*loop = (struct rsk_loop){
		.ops = ops,
		.owner = owner,
		.nonblock = nonblock,
		.listener = listener,
	};
	/*
	 * In slot 0: the set that poll and select scan is then no longer than the number of
	 * connections.
	 */
	loop->first = listener >= 0 ? 1 : 0;
	loop->free = loop->first;
	loop->end = loop->first + capacity;
	loop->conns = calloc(loop->end, sizeof(struct rsk_conn *));
	if (!loop->conns)
		return -ENOMEM;
	rc = rsk_waitset_init(&loop->ws, kind, loop->end);
	if (rc)
		goto out_conns;
	if (listener >= 0)
		rc = rsk_waitset_set(&loop->ws, 0, listener, RSK_IN);
	if (rc)
		goto out_set;
	return 0;
out_set:
	rsk_waitset_fini(&loop->ws);
out_conns:
	free(loop->conns);
	return rc;
}

void rsk_loop_fini(struct rsk_loop *loop)
{
	rsk_waitset_fini(&loop->ws);
	free(loop->conns);
}

/*
 * Lets a connection do what it can. A send is tried at once, without waiting for readiness first:
 * event loops usually do so, and the socket nearly always has room.
 */
static int rsk_loop_step(const struct rsk_loop *loop, struct rsk_conn *c, unsigned int events)
{
	unsigned int wanted = rsk_wants(c);
	int turns = loop->nonblock ? RSK_TURNS : 1;
	bool in = events & wanted & RSK_IN;
	bool out = events & wanted & RSK_OUT;

	while (turns-- > 0) {
		bool moved = false;
		int rc;

		if (in && rsk_wants(c) & RSK_IN) {
			rc = rsk_conn_rx(c);
			if (rc < 0 && rc != -EAGAIN && rc != -EINTR)
				return rc;
			moved = rc > 0;
		}
		/* It has begun to want to send (an answer), or it is ready to. */
		if (rsk_wants(c) & RSK_OUT && (out || !(wanted & RSK_OUT))) {
			rc = rsk_conn_tx(c, MSG_DONTWAIT);
			if (rc < 0 && rc != -EAGAIN && rc != -EINTR)
				return rc;
			moved |= rc > 0;
		}
		if (!moved)
			break;
		in |= loop->nonblock;
	}
	return 0;
}

/* Steps one connection, and updates what its slot waits for. */
static void rsk_loop_turn(struct rsk_loop *loop, unsigned int slot, unsigned int events)
{
	struct rsk_conn *c = loop->conns[slot];
	int rc = rsk_loop_step(loop, c, events);

	for (;;) {
		unsigned int wants = rsk_wants(c);

		if (rc == 0 && wants)
			rc = rsk_waitset_set(&loop->ws, slot, c->fd, wants);
		if (rc == 0 && wants)
			return;
		rsk_waitset_set(&loop->ws, slot, c->fd, 0);
		c = loop->ops->ended(loop, c, rc);
		loop->conns[slot] = c;
		if (!c) {
			loop->live--;
			loop->free = slot < loop->free ? slot : loop->free;
			return;
		}
		rc = rsk_loop_step(loop, c, RSK_OUT);
	}
}

int rsk_loop_add(struct rsk_loop *loop, struct rsk_conn *c)
{
	unsigned int slot = loop->free;

	while (slot < loop->end && loop->conns[slot])
		slot++;
	loop->free = slot;
	if (slot == loop->end)
		return -ENFILE;
	loop->conns[slot] = c;
	loop->live++;
	rsk_loop_turn(loop, slot, RSK_OUT);
	return (int)slot;
}

void rsk_loop_kick(struct rsk_loop *loop, unsigned int slot)
{
	if (loop->conns[slot])
		rsk_loop_turn(loop, slot, RSK_OUT);
}

int rsk_loop_run(struct rsk_loop *loop)
{
	struct rsk_ready ready[RSK_READY_MAX];

	while (loop->live || loop->listener >= 0) {
		int n;

		if (loop->ops->enough && loop->ops->enough(loop))
			break;
		n = rsk_waitset_wait(&loop->ws, ready);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			unsigned int slot = ready[i].slot;
			int rc;

			if (slot >= loop->first) {
				if (loop->conns[slot])
					rsk_loop_turn(loop, slot, ready[i].events);
				continue;
			}
			rc = loop->ops->accept(loop, loop->listener);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}
