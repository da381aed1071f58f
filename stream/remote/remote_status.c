// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_status.c - each end publishes, in a mailbox of its segment, the rails by which nothing can
 * come to it any more; a rail is probed by reading that mailbox of the peer. RAIL_DOWN is sent
 * once, by the ways that work at that moment; the mailbox shows the same at any later time. Only
 * the progress thread runs this. Design: docs/adr/read-path.md.
 */
#include <errno.h>
#include <string.h>

#include "credit.h"
#include "log.h"
#include "remote_parts.h"

#define BYTES sizeof(((struct rsk_seg_ctl *)0)->link)
#define OFF (rsk_seg_ctl_off(0) + offsetof(struct rsk_seg_ctl, link))

_Static_assert(RSK_MAILBOX_RAILS == RSK_RAILS_MOST, "a life for each");

static void begin(struct rsk_remote *r)
{
	for (uint64_t i = 0; i < 2; i++)
		rsk_key_init(&r->status_key[i], r->secret ^ (r->initiator == (i == 0)));
	rsk_mailbox_init(&r->status, r->l->seg.rail.segment + OFF, BYTES, &r->status_key[0]);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		rsk_mailbox_reader_init(&r->rail[i].status, &r->rail[i].puts, OFF, BYTES,
					&r->status_key[1], UINT32_MAX - i);
}

/*
 * The newest generation whose queue pair is closed: the one before, if the present one is coming or
 * up.
 */
static uint32_t closed(const struct rsk_remote_rail *rail)
{
	bool open = rail->state == RSK_REMOTE_RAIL_COMING || rail->state == RSK_REMOTE_RAIL_UP;

	return rail->generation - (open && rail->generation);
}

static void publish(struct rsk_remote *r)
{
	struct rsk_mailbox_link is = { .epoch = r->epoch };

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		is.closed[i] = closed(&r->rail[i]);
	if (!memcmp(&is, &r->said, sizeof(is)))
		return;
	r->said = is;
	rsk_mailbox_publish(&r->status, RSK_MAILBOX_LINK, &is, sizeof(is));
}

/*
 * Acts as on RAIL_DOWN, whether that has been received or not: closing our own end is right at any
 * time, and a rail that is closed at both ends carries no control word any more. What is missing
 * comes in MISSING (rail_failure.c).
 */
static void believe(struct rsk_remote *r, const struct rsk_mailbox_link *is)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		struct rsk_remote_rail *rail = &r->rail[i];

		if (r->state != RSK_REMOTE_UP || is->epoch != r->epoch ||
		    is->closed[i] != rail->generation)
			continue;
		if (rail->state == RSK_REMOTE_RAIL_UP) {
			rsk_log(RSK_LOG_INFO, "link %u: rail %u is closed there, its mailbox says",
				r->l->number, i);
			rsk_remote_rail_end(rail);
			rsk_remote_rail_lost(rail, -EPIPE);
		}
		if (r->state == RSK_REMOTE_UP && rail->state == RSK_REMOTE_RAIL_LOST)
			rsk_rails_closed(&r->rails, i);
	}
}

static void take(struct rsk_remote *r, uint32_t by)
{
	struct rsk_mailbox_reader *reader = &r->rail[by].status;
	struct rsk_mailbox_view view = { .len = 0 };
	struct rsk_mailbox_link is;

	if (reader->state != RSK_MAILBOX_LANDED || rsk_mailbox_take(reader, &view) != 1 ||
	    rsk_mailbox_link(&view, &is) < 0)
		return;
	rsk_log(RSK_LOG_DEBUG,
		"link %u: read by rail %u: rails are closed there "
		"up to lives %u %u %u %u of epoch %u",
		r->l->number, by, is.closed[0], is.closed[1], is.closed[2], is.closed[3], is.epoch);
	believe(r, &is);
}

void rsk_remote_hear_gets(struct rsk_remote *r)
{
	struct rsk_mailbox_reader *all[RSK_CREDIT_READERS + RSK_RAILS_MOST];
	uint32_t n = rsk_credit_readers(r, all);

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		all[n++] = &r->rail[i].status;
	rsk_mailbox_poll(&r->l->seg.rail, all, n);
}

void rsk_remote_ask(struct rsk_remote_rail *rail)
{
	/*
	 * Not started while one is in flight, or where the mailbox cannot be read yet: then a write
	 * of no bytes is the probe.
	 */
	if (rail->status.rail)
		rsk_mailbox_start(&rail->status);
	rsk_rdma_module->rail_probe(rail->rail);
}

void rsk_remote_status_work(struct rsk_remote *r)
{
	bool flying = false;

	if (r->state != RSK_REMOTE_UP && r->state != RSK_REMOTE_BROKEN)
		return;
	if (!r->status.at)
		begin(r);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		flying |= r->rail[i].status.state == RSK_MAILBOX_FLYING;
	if (flying)
		rsk_remote_hear_gets(r);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		take(r, i);
	publish(r);
}
