/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx.h - the receiving half of a direction: decides from which path the next byte comes. The
 * engine's receiving calls, readiness checks and the progress thread call it.
 *
 *	TCP --proposed, no thread in a plain kernel wait, position known--> WATCH
 *	WATCH --RING(N) seen--> DRAIN_TCP --position N reached on TCP--> ONRING
 *	ONRING --FALLBACK_TX slot--> TCP
 *	any --rsk_rx_fall_back(): FALLBACK_RX, "consumed up to C, continue by TCP"--> TCP for good
 *	ONRING --rsk_rx_quiesce(): QUIESCED, "retransmit from C", nothing is read-->
 *		TCP at the sender's RETRANSMIT; ONRING, if the sender had already fallen back
 *
 * A pure machine, as tx.h. Guarded by the stream's rx lock. Nothing here blocks.
 */
#ifndef RSK_RX_H
#define RSK_RX_H

#include <errno.h>

#include "tcp_socket.h"
#include "rx_state.h"

/*
 * @ring: in the own segment; @word_off: of our RX control word in the peer's segment; @word: the
 * peer's TX control word in the own segment. @rail, @ring and @word are borrowed.
 */
void rsk_rx_init(struct rsk_rx *rx, struct rsk_rail *rail, const uint8_t *ring, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *word, uint64_t key_seed);
/*
 * Called directly after rsk_rx_init(): slots that arrive over several rails have transaction tags
 * of that form. @record, NULL or borrowed: what is seen ahead is counted there, under the rx lock.
 */
static inline void rsk_rx_tag(struct rsk_rx *rx, const struct rsk_order_form *form,
			      struct rsk_stats_ahead *record)
{
	rx->tags.form = *form;
	rx->tags.record = record;
}

/* The peer reaches @cells of the ring (a power of two), or fewer: no slot is elsewhere. */
static inline void rsk_rx_reach(struct rsk_rx *rx, uint32_t cells)
{
	rx->ring.reach_log2 = (uint8_t)(31 - __builtin_clz(cells));
}

/* Called directly after rsk_rx_init(): the sender's first laps have @cells (rsk_tx_laps()). */
static inline void rsk_rx_laps(struct rsk_rx *rx, uint32_t cells)
{
	rx->ring.lap_cells = rx->rail_loss.lap_cells = cells;
}

/*
 * Called directly after rsk_rx_init(), instead of setting credit.consumed: credit is published in a
 * mailbox at @at.
 */
static inline void rsk_rx_publish_at(struct rsk_rx *rx, void *at, uint32_t bytes)
{
	rsk_mailbox_init(&rx->credit.mailbox, at, bytes, &rx->key);
}

/*
 * Starts the tags' machine at ring.next, unless it was started in this promotion: the slot there
 * has a tag, or is missing while several rails are up, or one of several rails has failed. Returns
 * whether the machine runs.
 */
static inline bool rsk_rx_txn_tags_begin(struct rsk_rx *rx)
{
	if (!rx->tags.on && rx->state >= RSK_RX_DRAIN_TCP &&
	    rsk_txn_tags_rx_begin(&rx->tags.machine, &rx->tags.form, rx->ring.cells,
				  rx->ring.next)) {
		rx->tags.machine->record = rx->tags.record;
		rx->tags.on = true;
	}
	return rx->tags.on;
}

/* The tags' machine, if it knows all that was taken; otherwise NULL. */
static inline struct rsk_txn_tags_rx *rsk_rx_txn_tags(const struct rsk_rx *rx)
{
	return rx->tags.on && rx->state >= RSK_RX_DRAIN_TCP ? rx->tags.machine : NULL;
}

/* Frees the arena memory of the machine. */
void rsk_rx_fini(struct rsk_rx *rx);
bool rsk_rx_validate(const struct rsk_rx *rx);

/*
 * Asks the sender for the time of each put, from its next call on: rx->stamp. Nothing is asked on a
 * fabric that leads to another clock. Returns 0 or -errno of the rail.
 */
int rsk_rx_want_stamps(struct rsk_rx *rx);

/*
 * Handles what the sender has said, and answers a proposal if that is possible now. Returns 0 or
 * -EPROTO.
 */
int rsk_rx_serve(struct rsk_rx *rx, struct rsk_tcp *c);

/*
 * Publishes credit where the sender can look it up, and sends it by control word if enough has
 * accumulated (@all: if there is any).
 */
void rsk_rx_give_credit(struct rsk_rx *rx, bool all);

/*
 * Returns whether the end reported by the TCP socket is the end of the stream. On the ring of a
 * fabric where a put may still be under way it is not: a correct sender's last command arrives
 * there, after its bytes, and of a dead sender it is not known what is missing (rsk_rx_lose()).
 * Exception: an error was delivered before. A TCP socket that is aborted while both ends and the
 * rail live leaves no command.
 */
static inline bool rsk_rx_ended(const struct rsk_rx *rx)
{
	if (!rx->tcp.eof || rx->rail_loss.lost || rx->tcp.err_told)
		return rx->tcp.eof;
	return rx->rail_loss.owed != RSK_RX_OWED_UNKNOWN &&
	       (rx->state < RSK_RX_WATCH || (rx->rail->ops->caps & RSK_FABRIC_SYNC));
}

/*
 * The TCP socket has bytes although the sender is on the ring and has given no command. A correct
 * sender gives the command before it sends any, and between hosts the command has arrived by then.
 * So the bytes come from calls that no hook saw, or from an incorrect sender. They wait for the
 * ring or for the link's end; the doorbell is notified of both.
 */
static inline bool rsk_rx_ahead(const struct rsk_rx *rx)
{
	return rx->tcp.ahead && rx->state == RSK_RX_ONRING;
}

/*
 * After a break, on TCP: it is not known whether bytes are missing before what the TCP socket has,
 * and that is not read. The sender's report says so (rsk_rx_owe()); if the sender is gone, as
 * rsk_rx_lose() says, none comes.
 */
static inline bool rsk_rx_unreported(const struct rsk_rx *rx)
{
	return __builtin_expect(rx->rail_loss.no_command, 0) && rx->state == RSK_RX_TCP &&
	       rx->rail_loss.owed == RSK_RX_OWED_UNKNOWN;
}

static inline bool rsk_rx_awaits_report(const struct rsk_rx *rx)
{
	return rsk_rx_unreported(rx) && !rx->rail_loss.lost;
}

/*
 * What the TCP socket has is not due, whatever it is: something else comes first, and the doorbell
 * is notified of that.
 */
static inline bool rsk_rx_not_due(const struct rsk_rx *rx)
{
	return rsk_rx_ahead(rx) || rsk_rx_is_quiesced(rx) || rsk_rx_awaits_report(rx);
}

/*
 * Records that error @err (-errno) is delivered. Errors other than these may concern a single
 * packet, and the stream continues.
 */
static inline void rsk_rx_told(struct rsk_rx *rx, int err)
{
	if (err == -ECONNRESET || err == -ECONNABORTED || err == -ETIMEDOUT || err == -EPIPE)
		rx->tcp.err_told = true;
}

/*
 * Keeps the socket's error @n (-errno; other values are ignored), which came after bytes, for the
 * next call.
 */
static inline void rsk_rx_keep_error(struct rsk_rx *rx, ssize_t n)
{
	if (n != -ECONNRESET && n != -ECONNABORTED && n != -ETIMEDOUT)
		return;
	rx->tcp.err = (int)n;
	rx->tcp.err_told = false;
}

/*
 * Takes the socket's error that is to be delivered now; 0: none. The end of the stream follows it.
 */
static inline int rsk_rx_take_error(struct rsk_rx *rx)
{
	int err = rx->tcp.err;

	if (err) {
		rx->tcp.err = 0;
		rx->tcp.eof = true;
		rsk_rx_told(rx, err);
	}
	return err;
}

/* On the ring, and the sender has said nothing new: rsk_rx_serve() would do nothing. */
static inline bool rsk_rx_on_fast_path(const struct rsk_rx *rx)
{
	return rx->state == RSK_RX_ONRING && !rx->fallback.step && !rx->fell_back && !rx->fin &&
	       !rsk_control_word_fresh(rx->word.at, rx->word.seen);
}

/*
 * After this many bytes rsk_rx_recv() takes no further slot: a sender that sleeps until there is
 * room has to be woken first.
 */
static inline size_t rsk_rx_round_bytes(const struct rsk_rx *rx)
{
	return (size_t)rx->ring.lap_cells * RSK_CELL_BYTES / 2;
}

/* The same of a round that began with laps of @lap cells, which may have grown since, or shrunk. */
static inline size_t rsk_rx_round_bytes_of(uint32_t lap, const struct rsk_rx *rx)
{
	if (rx->ring.lap_cells < lap)
		lap = rx->ring.lap_cells;
	return (size_t)lap * RSK_CELL_BYTES / 2;
}

/*
 * rsk_rx_recv - delivers what is available now, as a TCP receive queue would. Returns bytes; 0: end
 * of stream; -EAGAIN; -EPROTO: the peer breaks the protocol; -EFAULT: nothing was taken; other
 * -errno: the TCP socket's. @dst advances. @peek: nothing is consumed. @look: also asks the TCP
 * socket while the ring is empty (end, reset).
 */
ssize_t rsk_rx_recv(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool peek,
		    bool look);

/*
 * rsk_rx_recv_ring - delivers what is in the partial slot and the ring, of one round. Returns
 * bytes; 0: nothing, or a command ended it; -EPROTO, -ENOMEM, -EFAULT. It does all that
 * rsk_rx_recv() does while the receiver is on the fast path and there is something, unless it ends
 * with a command. Then rsk_rx_recv_rest() delivers what follows, and returns the sum of that and
 * @got, which is not 0.
 */
ssize_t rsk_rx_recv_ring(struct rsk_rx *rx, struct rsk_iovcur *dst);
ssize_t rsk_rx_recv_rest(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, size_t got);

/*
 * Runs commands at the head of the ring, and takes slots of no bytes there. They take no byte of
 * the stream, so any caller that checks may run them. Returns 0 or -errno.
 */
int rsk_rx_run_commands(struct rsk_rx *rx);

/* The same, and tells the sender of all that was read, however little. Returns 0 or -errno. */
int rsk_rx_catch_up(struct rsk_rx *rx);

/*
 * Asks the TCP socket whether it reports the stream's end or an error, and keeps that until it is
 * due.
 */
void rsk_rx_check_tcp(struct rsk_rx *rx, struct rsk_tcp *c);

/*
 * Is there something to deliver (bytes, end, error), as far as is known without asking the kernel?
 */
bool rsk_rx_ready(struct rsk_rx *rx);

/*
 * Bytes that can be delivered from the ring, the partial slot and the overread buffer; exact for at
 * least one slot. For FIONREAD and SO_RCVLOWAT. *alone, if not NULL: the TCP socket has none, since
 * the sender is on the ring and has given no command behind those.
 */
uint64_t rsk_rx_pending(struct rsk_rx *rx, bool *alone);

/*
 * There is unread data, and behind it a command of the sender: newer bytes, or the end, may be on
 * the TCP socket.
 */
bool rsk_rx_moved_on(struct rsk_rx *rx);

/*
 * What the end reported by the TCP socket means to a receiver on the ring. Where a put may still be
 * under way it means nothing until the sender's last command has arrived, after all that is unread.
 */
enum rsk_rx_end {
	RSK_RX_END_BEHIND, /* something is still to come by the ring, or may be missing */
	RSK_RX_END_TCP,	   /* nothing is; the TCP socket's report holds */
	RSK_RX_END_HERE	   /* nothing is, and the last thing is the end */
};
enum rsk_rx_end rsk_rx_end(struct rsk_rx *rx);
/*
 * The sender has shut its direction down: FIN is in the ring after all that is unread, or was read.
 */
bool rsk_rx_told_end(struct rsk_rx *rx);

/*
 * Nothing is left that has to be read at this end first: rsk_rx_fall_back() does not need a
 * retransmission.
 */
static inline bool rsk_rx_drained(const struct rsk_rx *rx)
{
	return (rx->state == RSK_RX_TCP || rx->fin) && !rx->overread.len && !rx->partial.len &&
	       !rsk_rx_in_race(rx) && !rx->skip && !rsk_rx_awaits_report(rx);
}

/*
 * The next slot shows, and was not whole when it was checked last: it is landing, or it is damaged.
 * Or it may be there with a damaged index, and does not show. Or the receiver is quiesced: the
 * answer is landing, or it is damaged. If it is damaged nothing need happen that wakes its reader.
 * So after some time, and again as long as the result is 1, call rsk_rx_recheck(). (Not needed on a
 * fabric that is SYNC.)
 */
static inline bool rsk_rx_torn(const struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	if (rx->ring.sync)
		return false;
	if (rsk_rx_is_quiesced(rx))
		return true;
	if (rx->state != RSK_RX_ONRING)
		return false;
	return rx->ring.bad_looks || (rx->whole.looks && rx->whole.part_at == rx->ring.next) ||
	       rsk_ring_misfits(&rx->ring) || rsk_ring_hides(&rx->ring, &v);
}

/*
 * rsk_rx_recheck - checks the next slot, or for an answer to QUIESCED, for a reader that sleeps. If
 * it is as wrong as it was at the call before, the sender is asked to put it again, or, in the end,
 * to retransmit it by TCP. Returns 1: call again later; 0: there is no such slot (any more);
 * -EPROTO: it will never be right, and neither can it be retransmitted.
 */
int rsk_rx_recheck(struct rsk_rx *rx);

/*
 * Number of the newest request to put a slot again; is it open, so far as the sender has said?
 * (None is in the ring of a rail that broke.)
 */
static inline uint32_t rsk_rx_repair(const struct rsk_rx *rx)
{
	return rx->own.word.repair;
}

static inline bool rsk_rx_repair_open(const struct rsk_rx *rx)
{
	return (rx->repair.index || rsk_rx_is_quiesced(rx)) && !rx->rail_loss.limit &&
	       rx->repair.answered != rx->own.word.repair;
}

/* Is anything unread at this end (for a reset at close)? */
bool rsk_rx_unread(struct rsk_rx *rx);

/*
 * rsk_rx_fall_back - falls back to TCP for good. *again: the peer has to retransmit something, and
 * will do so if it lives and makes a call. Returns 0; -EPROTO; -EBUSY: not yet, bytes at this end
 * have to be read first; -EAGAIN: as rsk_rx_quiesce(), or a break's report is awaited. -EBUSY is
 * for bytes that will not be retransmitted (in the overread buffer, or in the ring before a command
 * of the sender). With @stay, for a reader that can continue here, it is for any byte, so that the
 * reader need not wait for a call of the peer. The sender is then asked to fall back
 * (REQ_FALLBACK); call again when rsk_rx_drained().
 */
int rsk_rx_fall_back(struct rsk_rx *rx, bool stay, bool *again);

/*
 * rsk_rx_end_it - ends the promotion before rsk_rx_fall_back() tells the sender, for a caller that
 * does something in between which the sender must not disturb: the sender writes nothing by TCP
 * until it knows from which position. Returns false: not possible on this fabric, or the sender has
 * given a command, which is in the ring. Call it only where no byte is lost if the sender does not
 * live to learn of it: the sender may have closed or shut down its socket meanwhile.
 */
bool rsk_rx_end_it(struct rsk_rx *rx);

/*
 * rsk_rx_quiesce - quiesces: falls back on a fabric where a put takes time. There the sender's
 * FALLBACK_TX may be under way, and FALLBACK_RX cannot determine what it retransmits. The receiver
 * reports its position (QUIESCED) and takes nothing more. The sender's answer comes in the ring, in
 * order with all it has put: either RETRANSMIT, and everything unread follows by TCP, starting when
 * RETRANSMIT has arrived; or the command that the sender had already given. Returns 0: on TCP;
 * -EAGAIN: not yet, a later call of any kind finds the answer; -EBUSY: the sender had fallen back
 * or ended, and what is here has to be read; -EPROTO.
 */
int rsk_rx_quiesce(struct rsk_rx *rx);

/*
 * rsk_rx_ask_answer - a quiesced receiver that has waited for long asks for the answer once more:
 * it may be damaged, as any slot may. That is a request as for a slot (rsk_rx_repair()). Returns
 * false: it is not quiesced, or nothing can be put.
 */
bool rsk_rx_ask_answer(struct rsk_rx *rx);

/*
 * rsk_rx_pause - falls back at once, whatever the sender is doing, and stays paired. Before that,
 * in this order: rsk_rx_stay_off(), a full fence, and read everything in the ring. What the sender
 * puts after that it retransmits by TCP in the same call (it checks our control word after each
 * slot). No answer is needed, and nothing waits. Returns 0: on TCP; -EAGAIN: the sender has just
 * given a command, which is in the ring: read up to it and call again; -EOPNOTSUPP: not on this
 * fabric; -EPROTO.
 */
int rsk_rx_pause(struct rsk_rx *rx);

/*
 * rsk_rx_stay_off - @on: asks the sender to fall back at its next call, and not to propose until
 * the request is withdrawn. What is in the ring is read as usual. No effect on a fallback for good.
 */
void rsk_rx_stay_off(struct rsk_rx *rx, bool on);

/* This end does not read any more: the sender's next byte goes to the TCP socket. */
void rsk_rx_close(struct rsk_rx *rx);

/*
 * The rail broke. Returns what the sender must be told by the control connection, how much has
 * arrived here: a position (*pos), and the index after the last slot (*cell). What has arrived is
 * read as usual; the TCP socket has what follows.
 */
void rsk_rx_break(struct rsk_rx *rx, uint64_t *pos, uint64_t *cell);

/*
 * rsk_rx_owe - the sender's report on that: it had put bytes up to position @to, which it
 * retransmits or may have to; 0: it has nothing to retransmit, and @ring_end is its
 * rsk_tx_ring_end(); RSK_RX_NO_REPORT: it does not know the stream any more. Until then nothing is
 * read from the TCP socket behind the ring. Returns 0; -EPROTO: it will not retransmit what is
 * missing here.
 *
 * rsk_rx_owe_is_moot - This end does not wait for the report: nothing is read here any more.
 */
#define RSK_RX_NO_REPORT UINT64_MAX
int rsk_rx_owe(struct rsk_rx *rx, uint64_t to, uint64_t ring_end);
void rsk_rx_owe_is_moot(struct rsk_rx *rx);

/*
 * So many bytes come by the TCP socket before the sender's end in order, since it has said up to
 * where it retransmits; 0: it has not.
 */
static inline uint64_t rsk_rx_tcp_owed(const struct rsk_rx *rx)
{
	return rx->rail_loss.owed == RSK_RX_OWED_TO && rx->rail_loss.owed_to > rx->ring_bytes ?
		       rx->rail_loss.owed_to - rx->ring_bytes :
		       0;
}

/*
 * rsk_rx_missing - one of several rails has failed, and nothing can arrive by it any more. @gap is
 * called, in order, with each range of indexes in which there is no whole slot, from what was read
 * on; the last range has no end (UINT64_MAX). Slots that other rails carry may still arrive.
 * *missing, set before the last call of @gap: the transactions that are missing, if slots have
 * tags.
 */
void rsk_rx_missing(struct rsk_rx *rx, uint8_t scratch[static RSK_SLOT_MAX_PAYLOAD],
		    struct rsk_txn_tags_missing *missing,
		    void (*gap)(void *arg, uint64_t from, uint64_t to), void *arg);

/*
 * There is another rail, after rsk_rx_break(), with another key and an empty ring; the sender may
 * propose again. The counters are kept.
 */
void rsk_rx_renew(struct rsk_rx *rx, uint64_t key_seed);

/*
 * The sender is dead, or cannot be reached any more. What was put and has not arrived is lost, and
 * the stream counts as reset. A quiesced receiver reads on: nothing was retransmitted before
 * RETRANSMIT arrived. A receiver in WATCH cannot tell whether the ring had begun.
 */
void rsk_rx_lose(struct rsk_rx *rx);

/*
 * The sender ends in order. @cell: all that it put is below this index; 0: it is not on the ring.
 */
void rsk_rx_ending(struct rsk_rx *rx, uint64_t cell);

/*
 * For a fabric that is not RELIABLE: puts the current control word again (called on a timer).
 * Returns 0 or -errno.
 */
int rsk_rx_tick(struct rsk_rx *rx);

#endif
