// SPDX-License-Identifier: BSD-2-Clause
/*
 * credit.c - the progress thread reads the credit mailboxes of receivers whose senders, here, have
 * a full ring, and adds to the rings whose senders are paced (tx.h). See credit.h. Only the
 * progress thread runs this, except where a comment says otherwise. Design: docs/adr/read-path.md.
 */
#include "credit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "log.h"
#include "recovery.h"
#include "remote_parts.h"
#include "ring_width.h"
#include "stream.h"

#define LOOK_NS 10000000ull /* from a full ring to the first look-up, and between look-ups */
#define LANDS_NS 1000000ull /* until the check whether a read has completed */

/* One mailbox that is looked up. */
struct job {
	bool used, seen; /* seen: its ring is still full in this round */
	uint32_t sid;
	struct rsk_key key; /* of the stream's direction; another key: another stream, or epoch */
	struct rsk_mailbox_reader reader;
};

/* Of a link. It stays in place until the link's rails are freed: reads may be in flight. */
struct rsk_credits {
	struct rsk_remote *r;
	uint64_t next_ns;
	uint32_t tag;	 /* of the newest reader */
	bool full, soon; /* found in this round; soon: a read is in flight */
	bool waits;	 /* a read of an earlier round is still in flight: no new one is started */
	struct job job[RSK_CREDIT_READERS];
};

void rsk_credit_want(struct rsk_stream *s)
{
	if (atomic_load_explicit(&s->credit_due, memory_order_relaxed))
		return;
	/* In this order, seq_cst: the progress thread reads the two flags in the reverse order. */
	atomic_store(&s->credit_due, true);
	if (!atomic_exchange(&s->link->credit_due, true))
		rsk_progress_call();
}

static struct job *job_of(struct rsk_credits *c, struct rsk_stream *s)
{
	struct job *spare = NULL;

	for (uint32_t i = 0; i < RSK_CREDIT_READERS; i++) {
		struct job *j = &c->job[i];

		if (j->used && j->sid == s->sid && !memcmp(&j->key, &s->tx.key, sizeof(j->key)))
			return j;
		if (!j->used && !spare)
			spare = j;
	}
	if (!spare)
		return NULL; /* no job is free: it gets one in a later round */
	*spare = (struct job){ .used = true, .sid = s->sid, .key = s->tx.key };
	rsk_mailbox_reader_init(&spare->reader, &s->link->seg.rail,
				rsk_seg_ctl_off(s->sid) + offsetof(struct rsk_seg_ctl, credit),
				sizeof(((struct rsk_seg_ctl *)0)->credit), &spare->key, ++c->tag);
	return spare;
}

/*
 * Applies the credit that was read. tx_lock held. Returns 0 or -EPROTO. A receiver that has read
 * part of a slot since the last check is not stalled, so the timer for the fallback on a full ring
 * starts again.
 */
static int believe(struct rsk_stream *s, const struct rsk_mailbox_view *view)
{
	struct rsk_mailbox_credit is;
	int rc = rsk_mailbox_credit(view, &is);

	rc = rc < 0 ? -EPROTO : rsk_tx_credit(&s->tx, &is);
	if (rc == 1 && s->full.since_ns)
		s->full.since_ns = rsk_now_ns();
	return rc < 0 ? rc : 0;
}

/* tx_lock held. Returns 0 or -EPROTO. */
static int look_up(struct rsk_credits *c, struct rsk_stream *s)
{
	struct rsk_rail *rail = &s->link->seg.rail;
	struct rsk_mailbox_view view = { .len = 0 };
	struct job *j = job_of(c, s);
	int rc;

	if (!j)
		return 0;
	j->seen = true;
	if (j->reader.state == RSK_MAILBOX_IDLE) {
		/*
		 * The receiver cannot have read bytes that have not arrived. So no read is started
		 * either over a rail that has not answered for a while: what was put by it is still
		 * in flight.
		 */
		if (c->waits || !rail->ops->arrived(rail, s->tx.ring.off) ||
		    rsk_mailbox_start(&j->reader) < 0)
			return 0;
	}
	rc = rsk_mailbox_take(&j->reader, &view);
	c->soon |= j->reader.state == RSK_MAILBOX_FLYING;
	return rc == 1 ? believe(s, &view) : 0;
}

static void look(struct rsk_stream *s, void *arg)
{
	struct rsk_credits *c = arg;
	bool room = false;
	int rc = 0;

	if (!atomic_load_explicit(&s->credit_due, memory_order_relaxed))
		return;
	rsk_ring_width_work(c->r, s);
	rsk_lock(&s->tx_lock);
	if (s->tx.state == RSK_TX_ONRING && !rsk_tx_writable(&s->tx)) {
		rsk_tx_pace(&s->tx, rsk_now_ns());
		rc = rsk_tx_paced(&s->tx) ? 0 : look_up(c, s);
		room = rc == 0 && rsk_tx_writable(&s->tx);
		c->full = true;
	} else {
		/*
		 * Another thread's check has added to the bucket, or policy has changed the rate,
		 * and who waits was not woken.
		 */
		room = s->tx.state == RSK_TX_ONRING;
		atomic_store(&s->credit_due, false);
	}
	rsk_unlock(&s->tx_lock);
	if (rc < 0)
		rsk_stream_fail(s, rsk_stream_find_fd(s));
	if (rc < 0 || room)
		rsk_recovery_stir(s);
}

/*
 * Frees the jobs of streams that are no longer full, or no longer exist, once no read is in flight
 * for them.
 */
static void forget(struct rsk_credits *c, const struct rsk_link *l)
{
	for (uint32_t i = 0; i < RSK_CREDIT_READERS; i++) {
		struct job *j = &c->job[i];

		if (!j->used)
			continue;
		if (j->seen || j->reader.state == RSK_MAILBOX_FLYING) {
			j->seen = false;
			c->soon |= j->reader.state == RSK_MAILBOX_FLYING;
			continue;
		}
		rsk_log(RSK_LOG_DEBUG,
			"link %u: credit of stream %u was looked up %llu times, "
			"%llu torn, %llu new",
			l->number, j->sid, (unsigned long long)j->reader.gets,
			(unsigned long long)j->reader.torn, (unsigned long long)j->reader.whole);
		j->used = false;
	}
}

uint32_t rsk_credit_readers(const struct rsk_remote *r,
			    struct rsk_mailbox_reader *all[static RSK_CREDIT_READERS])
{
	for (uint32_t i = 0; r->credits && i < RSK_CREDIT_READERS; i++)
		all[i] = &r->credits->job[i].reader;
	return r->credits ? RSK_CREDIT_READERS : 0;
}

static bool waits(const struct rsk_credits *c)
{
	for (uint32_t i = 0; i < RSK_CREDIT_READERS; i++)
		if (c->job[i].reader.state == RSK_MAILBOX_FLYING)
			return true;
	return false;
}

void rsk_credit_work(struct rsk_remote *r, uint64_t now_ns)
{
	struct rsk_credits *c = r->credits;

	if (!r->listed || r->state == RSK_REMOTE_DEAD || (!c && !atomic_load(&r->l->credit_due)))
		return;
	if (!c) {
		c = r->credits = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->next_ns = UINT64_MAX;
		c->r = r;
	}
	if (atomic_exchange(&r->l->credit_due, false) && now_ns + LOOK_NS < c->next_ns)
		c->next_ns = now_ns + LOOK_NS;
	if (now_ns < c->next_ns)
		return;
	c->full = c->soon = false;
	rsk_remote_hear_gets(r);
	c->waits = waits(c);
	rsk_recovery_each(r->l, look, c);
	forget(c, r->l);
	c->next_ns = c->soon ? now_ns + LANDS_NS : c->full ? now_ns + LOOK_NS : UINT64_MAX;
}

uint64_t rsk_credit_next_ns(const struct rsk_remote *r)
{
	return r->credits ? r->credits->next_ns : UINT64_MAX;
}
