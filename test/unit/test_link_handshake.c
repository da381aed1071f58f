// SPDX-License-Identifier: BSD-2-Clause
/* test_link_handshake.c - tests which link to another host an answer of rsockd belongs to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <rsock/reason.h>

#include "pairing.h"
#include "remote.h"
#include "remote_kit.h"

#define HANDLE 77

static void asks(struct kit *k)
{
	kit_link(k, false);
	k->r->target.handle = HANDLE;
	k->r->waits_verdict = true;
}

static bool answer(void)
{
	bool taken;

	rsk_pairing_take();
	taken = rsk_link_handshake_ops.answered(HANDLE, RSK_REASON_MAPPED);
	rsk_pairing_give();
	return taken;
}

/* The peer's control connection is lost, and it comes again with the same mapping. */
Test(link_handshake, an_answer_is_not_for_a_link_that_has_ended)
{
	struct kit first, again;

	kit_init();
	asks(&first);
	asks(&again);
	rsk_remote_dead(first.r, -ECONNRESET);
	cr_assert(answer());
	cr_assert_eq(first.r->verdict, 0);
	cr_assert_eq(again.r->verdict, RSK_REASON_MAPPED + 1);
	cr_assert_not(answer(), "nobody has asked");
}
