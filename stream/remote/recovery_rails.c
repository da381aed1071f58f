// SPDX-License-Identifier: BSD-2-Clause
/*
 * recovery_rails.c - rail recovery: the streams of a link that has lost, or gained, one of several
 * rails. See recovery.h. Only the progress thread runs this.
 */
#include <errno.h>

#include "recovery.h"
#include "log.h"
#include "rdma.h"
#include "stream.h"
#include "upcall.h"

struct naming {
	rsk_recovery_gap_fn *gap;
	void *arg;
	uint32_t sid;
	struct rsk_txn_tags_missing missing;
};

static void name_one(void *arg, uint64_t from, uint64_t to)
{
	const struct naming *n = arg;

	n->gap(n->arg, n->sid, from, to, &n->missing);
}

static void missing_one(struct rsk_stream *s, void *arg)
{
	static uint8_t scratch[RSK_SLOT_MAX_PAYLOAD]; /* of the progress thread */
	struct naming *n = arg;

	n->sid = s->sid;
	n->missing = (struct rsk_txn_tags_missing){ 0 };
	rsk_lock(&s->rx_lock);
	rsk_rx_missing(&s->rx, scratch, &n->missing, name_one, n);
	rsk_unlock(&s->rx_lock);
	rsk_stats_add(&s->rec->missing, n->missing.transactions);
	rsk_stats_add(&s->rec->missing_first, n->missing.first);
}

static void lost_one(struct rsk_stream *s, void *arg)
{
	rsk_stats_add(&s->rec->rails_lost, 1);
}

void rsk_recovery_rail_lost(struct rsk_link *l)
{
	rsk_recovery_each(l, lost_one, NULL);
}

void rsk_recovery_gaps(struct rsk_link *l, rsk_recovery_gap_fn *gap, void *arg)
{
	struct naming n = { .gap = gap, .arg = arg };

	rsk_recovery_each(l, missing_one, &n);
}

/*
 * The ranges that follow say exactly what is to be put again: most of a transaction may have
 * arrived. The name tells a reader of the log whether both ends count alike.
 */
void rsk_recovery_named(struct rsk_link *l, uint32_t sid, uint64_t number, uint32_t transactions)
{
	struct rsk_stream *s = rsk_recovery_paired(l, sid);
	uint64_t begin = 0, end = 0;
	int rc = -ENOENT;

	if (!s)
		return;
	rsk_lock(&s->tx_lock);
	if (s->tx.ring.order)
		rc = rsk_order_tx_where(s->tx.ring.order, number, &begin, &end);
	rsk_unlock(&s->tx_lock);
	rsk_stream_unpin(s);
	if (rc == 0)
		rsk_log(RSK_LOG_DEBUG,
			"link %u: stream %u: %u transactions are missing there, the first of "
			"them %llu, put at %llu to %llu",
			l->number, sid, transactions, (unsigned long long)number,
			(unsigned long long)begin, (unsigned long long)end);
	else
		rsk_log(RSK_LOG_DEBUG,
			"link %u: stream %u: %u transactions are missing there, the first of "
			"them %llu, which is not under way here",
			l->number, sid, transactions, (unsigned long long)number);
}

void rsk_recovery_retransmit(struct rsk_link *l, uint32_t sid, uint32_t lost, uint64_t from,
			     uint64_t to)
{
	struct rsk_stream *s = rsk_recovery_paired(l, sid);

	if (!s)
		return;
	rsk_lock(&s->tx_lock);
	/*
	 * If a slot cannot be put again, its cells were overwritten: nothing can tell then what is
	 * missing.
	 */
	if (!s->tx.rail_loss.ring_over &&
	    rsk_ring_tx_retransmit(&s->tx.ring, from, to, lost) == -EPROTO)
		rsk_stream_fail(s, rsk_stream_find_fd(s));
	rsk_unlock(&s->tx_lock);
	rsk_stream_unpin(s);
}

static void several_one(struct rsk_stream *s, void *arg)
{
	rsk_lock(&s->tx_lock);
	rsk_tx_several(&s->tx);
	rsk_unlock(&s->tx_lock);
}

void rsk_recovery_several(struct rsk_link *l)
{
	rsk_recovery_each(l, several_one, NULL);
}

static void fabric_one(struct rsk_stream *s, void *arg)
{
	rsk_stats_set_fabric(s->rec, s->link->fabric);
}

void rsk_recovery_fabric(struct rsk_link *l)
{
	rsk_recovery_each(l, fabric_one, NULL);
}

void rsk_recovery_stir(struct rsk_stream *s)
{
	rsk_rdma_news(NULL, s->link, s->sid, RSK_WAKE_RX | RSK_WAKE_TX);
	rsk_upcalls->changed(s);
}

static void stir_one(struct rsk_stream *s, void *arg)
{
	rsk_recovery_stir(s);
}

void rsk_recovery_stir_all(struct rsk_link *l)
{
	rsk_recovery_each(l, stir_one, NULL);
}
