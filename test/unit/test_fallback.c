// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fallback.c - tests the fallback of a stream before calls that only the kernel can serve
 * (fallback.c): what delays it, and how long the library waits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hooked.h"
#include "recovery.h"
#include "over.h"
#include "remote_kit.h"

static struct kit_stream with_bytes_under_way(struct kit *k)
{
	struct kit_stream ks;
	char byte = 'x';

	kit_link(k, true);
	kit_rail_up(k, 0);
	ks = kit_stream(k, true);
	ks.s->tx.answered = RSK_ANSWERED_SWITCHED; /* FALLBACK_TX may be sent */
	kit_fabric.arrived = false;
	cr_assert_eq(hooked_fall_back(ks.fd, true, &byte, 1), 1);
	cr_assert_eq(ks.s->tx.state, RSK_TX_ONRING);
	return ks;
}

/*
 * The rail may still break; then the bytes are repeated by TCP, and nothing newer may be before
 * them.
 */
Test(leave, nothing_goes_by_tcp_before_what_was_put_has_arrived)
{
	struct kit_stream ks;
	struct kit k;

	kit_init();
	ks = with_bytes_under_way(&k);
	cr_assert_eq(rsk_fd_fall_back_tx(ks.fd, RSK_REASON_SPLICE), -EAGAIN);
	cr_assert_eq(ks.s->tx.state, RSK_TX_TCP, "its MOVE is on the way as well");
	kit_fabric.arrived = true;
	cr_assert_eq(rsk_fd_fall_back_tx(ks.fd, RSK_REASON_SPLICE), 0);
	/* Whatever the rail reports from now on. */
	kit_fabric.arrived = false;
	rsk_tx_break(&ks.s->tx);
	cr_assert_eq(ks.s->tx.state, RSK_TX_TCP);
}

Test(leave, nor_does_a_stream_leave_for_good)
{
	struct kit_stream ks;
	char byte = 'y';
	struct kit k;

	kit_init();
	ks = with_bytes_under_way(&k);
	cr_assert_eq(rsk_fd_fall_back(ks.fd, RSK_REASON_OOB), 0);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_PAIRED, "our hooks go on with it");
	cr_assert_eq(hooked_fall_back(ks.fd, true, &byte, 1), -EAGAIN);
	kit_fabric.arrived = true;
	cr_assert_eq(hooked_fall_back(ks.fd, true, &byte, 1), 1);
	hooked_fall_back(ks.fd, false, &byte, 1);
	cr_assert_eq(rsk_stream_phase(ks.s), RSK_PHASE_UNTRACKED);
}

/*
 * The peer's reader has closed, and so does this end. Over several rails, what is under way would
 * land in the ring of the next stream with that id; over one rail it lands before everything that
 * this stream puts.
 */
Test(leave, a_ring_is_given_away_behind_all_writes)
{
	kit_init();
	for (int several = 0; several < 2; several++) {
		struct kit_stream ks;
		uint32_t sid;
		struct kit k;

		ks = with_bytes_under_way(&k);
		if (several)
			kit_rail_up(&k, 1);
		sid = ks.s->sid;
		rsk_tx_reader_gone(&ks.s->tx, RSK_READER_CLOSED);
		cr_assert_geq(rsk_fd_closing(ks.fd), 0);
		close(ks.fd);
		cr_assert_eq(rsk_link_stream(k.r->l, sid), several ? ks.s : NULL);
		rsk_recovery_work();
		cr_assert_eq(rsk_link_stream(k.r->l, sid), several ? ks.s : NULL);
		kit_fabric.arrived = true;
		rsk_recovery_work();
		cr_assert_null(rsk_link_stream(k.r->l, sid));
		close(ks.other);
	}
}

#define STREAMS 8
#define PATIENCE_NS 200000000ull /* for one stream, or for all */

/*
 * Another process has these streams too, and only it can have what is in the files: the exec gives
 * it time to close its own.
 */
Test(leave, an_exec_waits_once_for_all_streams)
{
	uint64_t began, took;
	struct kit k;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	for (int i = 0; i < STREAMS; i++) {
		struct kit_stream ks = kit_stream(&k, false);

		cr_assert_gt(ks.fd, STDERR_FILENO);
		cr_assert_eq(rsk_over_open(ks.s), 0);
		cr_assert_eq(rsk_over_add(ks.s, "unread", 6), 0);
		rsk_over_seal(ks.s, ks.fd);
		atomic_store(&ks.s->fork.kin.others, 1);
	}
	began = rsk_now_ns();
	cr_assert_eq(rsk_exec_vforked(), 0);
	took = rsk_now_ns() - began;
	cr_assert_geq(took, PATIENCE_NS);
	cr_assert_lt(took, STREAMS / 2 * PATIENCE_NS, "%lu ms", (unsigned long)(took / 1000000));
}
