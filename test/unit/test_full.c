// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_full.c - tests a sender that has waited too long for room and cannot fall back: it sleeps,
 * and retries at intervals.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "full.h"
#include "hooked.h"
#include "control_word.h"
#include "remote_kit.h"

#define WAIT_MS 300
#define FEW_SLEEPS 40 /* one per retry, and as many for other wake-ups */

static _Atomic(uint64_t) ended;

static struct kit_stream full(struct kit *k)
{
	static char bytes[4096];
	struct kit_stream ks;
	ssize_t n;

	kit_init();
	kit_link(k, true);
	kit_rail_up(k, 0);
	ks = kit_stream(k, true);
	kit_fabric.arrived = true;
	while ((n = hooked_fall_back(ks.fd, true, bytes, sizeof(bytes))) > 0)
		;
	cr_assert_eq(n, -EAGAIN);
	cr_assert_eq(ks.s->tx.state, RSK_TX_ONRING);
	cr_assert_not(rsk_tx_writable(&ks.s->tx));
	ks.s->full.since_ns = 1; /* long ago */
	ks.s->full.credit = ks.s->tx.ring.credit;
	return ks;
}

/*
 * The receiver has ended the promotion, and has not said yet from which position on it falls back.
 */
static void end_silently(struct rsk_stream *s)
{
	atomic_store(&ended, 0);
	s->tx.answered = RSK_ANSWERED_SWITCHED;
	s->tx.ended = &ended;
	cr_assert(rsk_promotion_end(&ended, s->tx.gen, RSK_ENDED_BY_RX));
}

/* A blocking send that runs into its timeout. Returns how often it slept. */
static uint64_t sleeps_of_send(int fd)
{
	const struct timeval patience = { .tv_usec = WAIT_MS * 1000 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct rsk_op op;
	uint64_t before = __atomic_load_n(&rsk_stats_self()->sleeps, __ATOMIC_RELAXED);
	ssize_t n;

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	cr_assert_neq(rsk_op_begin(&op, fd, RSK_OP_SEND), RSK_KERNEL);
	n = rsk_op_send(&op, &iov, 1, 0);
	rsk_op_end(&op, n);
	cr_assert_eq(n, -EAGAIN);
	return __atomic_load_n(&rsk_stats_self()->sleeps, __ATOMIC_RELAXED) - before;
}

Test(full, who_cannot_move_tries_again_later)
{
	struct kit_stream ks;
	struct kit k;

	ks = full(&k);
	end_silently(ks.s);
	cr_assert_not(rsk_stream_fall_back_full(ks.s, ks.fd), "it has not moved");
	cr_assert_gt(rsk_stream_full_until(ks.s), rsk_now_ns());
	ks.s->full.since_ns = 1;
	cr_assert_leq(sleeps_of_send(ks.fd), FEW_SLEEPS, "it does not sleep");
	cr_assert_eq(ks.s->tx.state, RSK_TX_ONRING);
}

/*
 * A slow network: TCP still delivers what was sent before the promotion. What would fall back waits
 * behind that, and each promotion after it would have more before it.
 */
Test(full, who_has_bytes_before_the_ring_under_way_waits)
{
	static char bytes[1 << 16];
	struct kit_stream ks;
	struct kit k;
	uint32_t had;
	ssize_t n;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	while ((n = send(ks.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		atomic_fetch_add(&ks.s->tcp_bytes.tx, (uint64_t)n);
	kit_promote(&ks);
	ks.s->tx.answered = RSK_ANSWERED_SWITCHED;
	kit_fabric.arrived = true;
	while (hooked_fall_back(ks.fd, true, bytes, sizeof(bytes)) > 0)
		;
	cr_assert_not(rsk_stream_fall_back_full(ks.s, ks.fd), "since a moment only");
	for (int i = 0; i < 3; i++) {
		had = rsk_kernel_unacked(ks.fd);
		cr_assert_gt(had, 0);
		while (rsk_kernel_unacked(ks.fd) == had)
			cr_assert_gt(recv(ks.other, bytes, sizeof(bytes), 0), 0);
		ks.s->full.since_ns = 1;
		cr_assert_not(rsk_stream_fall_back_full(ks.s, ks.fd), "TCP delivers");
		cr_assert_gt(rsk_stream_full_until(ks.s), rsk_now_ns());
		cr_assert_eq(ks.s->tx.state, RSK_TX_ONRING);
	}
	/* Nobody reads any more, and soon TCP has no room for more either. */
	for (int i = 0; i < 100 && ks.s->tx.state == RSK_TX_ONRING; i++) {
		ks.s->full.since_ns = 1;
		rsk_stream_fall_back_full(ks.s, ks.fd);
		usleep(10000);
	}
	cr_assert_neq(ks.s->tx.state, RSK_TX_ONRING);
}

/* Off the ring, the sender does not wait for room in the ring. */
Test(full, who_is_off_the_ring_does_not_look_at_its_room)
{
	struct kit_stream ks;
	struct kit k;

	ks = full(&k);
	rsk_tx_break(&ks.s->tx);
	kit_fabric.arrived = false;
	cr_assert_eq(ks.s->tx.state, RSK_TX_BROKEN);
	cr_assert_leq(sleeps_of_send(ks.fd), FEW_SLEEPS, "it does not sleep");
}
