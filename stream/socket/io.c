// SPDX-License-Identifier: BSD-2-Clause
/*
 * io.c - parts common to receive and send on a paired stream: records path changes, and processes
 * the peer's control words. See stream.h.
 */
#include <errno.h>

#include <rsock/sys.h>

#include "log.h"
#include "stream.h"

/*
 * The stream's ordinary end goes by way of the TCP socket, which is no demotion. A hint is good
 * enough for the record. Where only the link is gone the stream goes on.
 */
static bool ends(const struct rsk_stream *s, bool tx)
{
	return s->tx.reader == RSK_READER_CLOSED || s->tx.answer.at->what == RSK_RX_CLOSED ||
	       (tx && s->tx.fin);
}

void rsk_stream_note_change(struct rsk_stream *s, bool tx, enum rsk_reason cause)
{
	uint32_t p = tx ? s->tx.counts.promotions : s->rx.counts.promotions;
	uint32_t d = tx ? s->tx.counts.demotions : s->rx.counts.demotions;
	struct rsk_noted *noted = &s->noted[tx];
	uint64_t now = p != noted->promotions || d != noted->demotions ? rsk_now_ns() : 0;

	/* The peer has left the ring because we asked it to. */
	if (cause == RSK_REASON_PEER_FELL_BACK && atomic_load(&s->request.off))
		cause = RSK_REASON_OPERATOR;
	if (cause == RSK_REASON_PEER_FELL_BACK && !tx && s->rx.rail_loss.lost)
		cause = RSK_REASON_PEER_DEAD;

	while (noted->promotions != p || noted->demotions != d) {
		bool on_ring = noted->promotions != noted->demotions;

		if (!on_ring && noted->promotions != p) {
			rsk_stats_event(s->rec, now,
					tx ? RSK_EVENT_PROMOTED_TX : RSK_EVENT_PROMOTED_RX,
					RSK_REASON_DIRECT);
			rsk_stats_set_reason(s->rec, RSK_REASON_DIRECT);
			noted->promotions++;
		} else if (on_ring && noted->demotions != d) {
			if (!ends(s, tx))
				rsk_stats_event(s->rec, now,
						tx ? RSK_EVENT_DEMOTED_TX : RSK_EVENT_DEMOTED_RX,
						cause);
			noted->demotions++;
		} else {
			/*
			 * A bug in the library: promotions and demotions alternate, as
			 * rsk_tx_validate() and rsk_rx_validate() check.
			 */
			rsk_log(RSK_LOG_ERROR,
				"stream %u: %s was promoted %u times, demoted %u times: "
				"please report",
				s->sid, tx ? "sending" : "receiving", p, d);
			*noted = (struct rsk_noted){ p, d };
		}
	}
}

void rsk_stream_serve(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_tcp k;
	uint32_t moves0, gen0, rc = 0;

	if (fd < 0 || rsk_stream_failed(s))
		return;
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	if (rsk_trylock(&s->tx_lock)) {
		moves0 = s->tx.counts.promotions + s->tx.counts.demotions;
		if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO)
			rsk_stream_fail(s, fd);
		rsk_stream_note(s, true, RSK_REASON_PEER_FELL_BACK);
		rc |= s->tx.counts.promotions + s->tx.counts.demotions != moves0 ? RSK_WAKE_RX : 0;
		rsk_unlock(&s->tx_lock);
	}
	if (rsk_trylock(&s->rx_lock)) {
		gen0 = s->rx.gen;
		if (rsk_rx_serve(&s->rx, &k.c) == -EPROTO)
			rsk_stream_fail(s, fd);
		rsk_stream_note(s, false, RSK_REASON_PEER_FELL_BACK);
		rc |= s->rx.gen != gen0 ? RSK_WAKE_TX : 0;
		rsk_unlock(&s->rx_lock);
	}
	if (rc)
		rsk_stream_notify(s, rc);
	rsk_sigdefer_exit();
}

void rsk_stream_stay_off(struct rsk_stream *s)
{
	rsk_rx_stay_off(&s->rx,
			(s->tx.stay_off & ~RSK_TX_STAY_ASKED) || rsk_stream_takes_nothing(s));
}

void rsk_stream_keep_error(struct rsk_stream *s, ssize_t n)
{
	if (n >= 0)
		return;
	rsk_lock(&s->rx_lock);
	rsk_rx_keep_error(&s->rx, n);
	rsk_unlock(&s->rx_lock);
}
