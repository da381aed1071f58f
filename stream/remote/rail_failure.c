// SPDX-License-Identifier: BSD-2-Clause
/*
 * rail_failure.c - one of several rails is gone, and the streams stay on the ring. Each end, as
 * soon as it knows, closes its own end of the rail, so that nothing can come by it any more, and
 * sends RAIL_DOWN; then, for each stream, the slots that have not come by any rail (MISSING); then
 * MISSING_END. The end that had put missing slots by that rail puts them again by others (rails.h).
 * Only when both ends have received MISSING_END may the rail be connected again. When the last rail
 * goes, or the other end says so (BREAK), the link breaks, which involves further messages. Design:
 * docs/adr/rails.md. Only the progress thread runs this.
 *
 * All these messages are sent by the control connection and by each rail that is up, since the
 * network of the connection may be the one that has failed. The messages about one generation of a
 * rail are numbered and handled in that order, each once, whichever way delivers them first: the
 * connection delivers all of them in the end, a rail those that arrived before it died.
 */
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "log.h"
#include "news.h"
#include "recovery.h"
#include "remote_parts.h"
#include "stream.h"

/* ---- does TCP work? ---- */

/*
 * Both ends report each lost generation: until the connection has delivered the peer's report, it
 * is unknown whether TCP works.
 */
static void doubt_tcp(struct rsk_remote *r)
{
	bool doubted = false;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		doubted |= r->rail[i].told_generation > r->rail[i].tcp_generation;
	atomic_store(&r->l->tcp_doubted, doubted);
}

/* The connection has delivered all messages about that generation, or no more will be sent. */
static void trust_tcp(struct rsk_remote_rail *rail, uint32_t generation)
{
	if (generation <= rail->tcp_generation)
		return;
	rail->tcp_generation = generation;
	doubt_tcp(rail->r);
}

/* ---- all rails are gone ---- */

static void say_resume(void *arg, uint32_t sid, uint64_t pos, uint64_t cell, uint64_t owed,
		       uint64_t ring_end)
{
	struct rsk_remote *r = arg;
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RESUME,
				    .epoch = r->epoch,
				    .sid = sid,
				    .pos = pos,
				    .cell = cell,
				    .owed = owed,
				    .ring_end = ring_end };

	rsk_control_conn_send(&r->control, &m);
}

/*
 * Nothing comes in any more: what each stream has consumed by now is all that it gets by the ring.
 */
void rsk_remote_broken(struct rsk_remote *r, int err)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_BREAK, .epoch = r->epoch };
	struct rsk_remote_msg all = { .type = RSK_REMOTE_RESUMED, .epoch = r->epoch };

	rsk_log(RSK_LOG_INFO, "link %u: its rails broke: %d", r->l->number, err);
	r->state = RSK_REMOTE_BROKEN;
	atomic_store(&r->l->seg.rail.broken, err < 0 ? err : -EPIPE);
	rsk_control_conn_keep(&r->control, true);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		rsk_remote_rail_end(&r->rail[i]);
		rsk_remote_rail_idle(&r->rail[i]);
		trust_tcp(&r->rail[i], r->rail[i].told_generation);
	}
	rsk_rails_down(&r->rails);
	if (!rsk_control_conn_send(&r->control, &m))
		return;
	rsk_recovery_break(r->l, say_resume, r);
	rsk_control_conn_send(&r->control, &all);
}

/*
 * Otherwise the link has broken here already, or is not up here yet: then it was up for a while at
 * the other end alone, and the next epoch must be one that neither end has had.
 */
void rsk_remote_on_break(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (r->state == RSK_REMOTE_UP && m->epoch == r->epoch)
		rsk_remote_broken(r, -EPIPE);
	else if ((r->state == RSK_REMOTE_BROKEN || r->state == RSK_REMOTE_RAILING) &&
		 m->epoch > r->epoch)
		r->epoch = m->epoch;
}

/* ---- one of several ---- */

static struct rsk_remote_msg about(const struct rsk_remote_rail *rail, uint32_t type)
{
	return (struct rsk_remote_msg){ .type = type,
					.rail = rail->index,
					.generation = rail->generation,
					.epoch = rail->r->epoch };
}

/*
 * Collects one MISSING message of one stream; it is sent when it is full, or is the stream's last.
 */
struct naming {
	struct rsk_remote *r;
	struct rsk_remote_msg m;
	uint64_t turn;
	uint64_t transactions, first; /* of all streams */
};

static void say(struct rsk_remote *r, struct rsk_remote_msg *m, uint64_t turn)
{
	m->pos = turn;
	if (!rsk_control_conn_send(&r->control, m))
		return;
	/* A rail that cannot take it breaks; another rail, or the connection, delivers it. */
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_UP)
			rsk_rdma_module->rail_say(r->rail[i].rail, m, sizeof(*m));
}

static void send_gaps(struct naming *n)
{
	if (n->m.gaps)
		say(n->r, &n->m, n->turn++);
	n->m.gaps = n->m.missing = 0;
	n->m.cell = 0;
}

static void name_gap(void *arg, uint32_t sid, uint64_t from, uint64_t to,
		     const struct rsk_txn_tags_missing *missing)
{
	struct naming *n = arg;

	if (n->m.gaps == RSK_REMOTE_MISSING_MOST || (n->m.gaps && n->m.sid != sid))
		send_gaps(n);
	n->m.sid = sid;
	n->m.gap[n->m.gaps++] = (struct rsk_remote_missing){ from, to };
	n->m.missing = missing->transactions;
	n->m.cell = missing->lowest;
	n->transactions += missing->transactions;
	n->first += missing->first;
	if (missing->transactions)
		rsk_log(RSK_LOG_DEBUG,
			"link %u: stream %u misses %u transactions, the first of them %llu",
			n->r->l->number, sid, missing->transactions,
			(unsigned long long)missing->lowest);
}

/*
 * Reports the generation @life, whose queue pair is closed. Once: a repetition by the other end has
 * no effect.
 */
static void say_rail_down(struct rsk_remote_rail *rail, uint32_t generation)
{
	struct naming n = { .r = rail->r, .m = about(rail, RSK_REMOTE_MISSING) };
	struct rsk_remote_msg lost = about(rail, RSK_REMOTE_RAIL_DOWN),
			      named = about(rail, RSK_REMOTE_MISSING_END);

	if (generation <= rail->told_generation)
		return;
	rail->told_generation = n.m.generation = lost.generation = named.generation = generation;
	doubt_tcp(rail->r);
	/* Ranges are reported under the streams' locks, which closing the link takes. */
	rsk_control_conn_cork(&rail->r->control);
	say(rail->r, &lost, n.turn++);
	rsk_recovery_gaps(rail->r->l, name_gap, &n);
	send_gaps(&n);
	say(rail->r, &named, n.turn);
	if (!rsk_control_conn_uncork(&rail->r->control))
		return;
	rsk_log(RSK_LOG_INFO,
		"link %u: rail %u: %llu transactions are missing here, "
		"of %llu the first packet, too",
		rail->r->l->number, rail->index, (unsigned long long)n.transactions,
		(unsigned long long)n.first);
}

/* Its queue pair is closed. */
void rsk_remote_rail_lost(struct rsk_remote_rail *rail, int err)
{
	struct rsk_remote *r = rail->r;
	bool was_up = rail->state == RSK_REMOTE_RAIL_UP;

	rail->state = RSK_REMOTE_RAIL_LOST;
	rail->established = rail->heard = false;
	rail->due_ns = UINT64_MAX;
	rsk_rails_lost(&r->rails, rail->index);
	if (!rsk_rails_count(&r->rails)) {
		rsk_remote_broken(r, err);
		return;
	}
	rsk_log(RSK_LOG_INFO, "link %u: rail %u of several is lost: %d", r->l->number, rail->index,
		err);
	if (was_up) {
		rsk_recovery_rail_lost(r->l);
		rsk_remote_name_fabric(r);
	}
	say_rail_down(rail, rail->generation);
}

/* The rail, if the message is about its present generation; else NULL. */
static struct rsk_remote_rail *meant(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];

	return r->state == RSK_REMOTE_UP && m->epoch == r->epoch &&
			       m->generation == rail->generation ?
		       rail :
		       NULL;
}

/*
 * The link is up at the other end through a rail that died before the link was up here, and the
 * other end has lost another rail since. It is answered once the link is up here, too, for that
 * epoch: until then nothing was put by it from here, and what is missing is unknown.
 */
static void early(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];

	rail->early_epoch = m->epoch;
	rail->early_generation = m->generation;
	if (rail->state == RSK_REMOTE_RAIL_COMING && rail->generation == m->generation) {
		rsk_remote_rail_end(rail);
		rsk_remote_rail_idle(rail);
	}
}

void rsk_remote_say_early(struct rsk_remote *r)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].early_epoch == r->epoch)
			say_rail_down(&r->rail[i], r->rail[i].early_generation);
}

static void on_lost(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = meant(r, m);

	if ((r->state == RSK_REMOTE_BROKEN || r->state == RSK_REMOTE_RAILING) &&
	    m->epoch > r->epoch) {
		early(r, m);
		return;
	}
	/*
	 * A generation that never was up here and has been followed by another: the other end waits
	 * for a report on it.
	 */
	if (!rail && r->state == RSK_REMOTE_UP && m->epoch == r->epoch &&
	    m->generation < r->rail[m->rail].generation)
		say_rail_down(&r->rail[m->rail], m->generation);
	if (!rail)
		return;
	if (rail->state == RSK_REMOTE_RAIL_UP || rail->state == RSK_REMOTE_RAIL_COMING) {
		rsk_remote_rail_end(rail);
		rsk_remote_rail_lost(rail, -EPIPE);
	} else if (rail->state == RSK_REMOTE_RAIL_IDLE) {
		/* it never was up here; the other end waits for that report */
		say_rail_down(rail, rail->generation);
	}
	if (r->state == RSK_REMOTE_UP)
		rsk_rails_closed(&r->rails, rail->index);
}

static void on_gap(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	const struct rsk_remote_rail *rail = meant(r, m);

	if (!rail || rail->state != RSK_REMOTE_RAIL_LOST)
		return;
	if (m->missing)
		rsk_recovery_named(r->l, m->sid, m->cell, m->missing);
	for (uint32_t i = 0; i < m->gaps; i++)
		rsk_recovery_retransmit(r->l, m->sid, m->rail, m->gap[i].from, m->gap[i].to);
}

static void on_named(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = meant(r, m);

	if (!rail || rail->state != RSK_REMOTE_RAIL_LOST)
		return;
	rsk_rails_named(&r->rails, rail->index);
	rsk_remote_rail_idle(rail);
	/* Threads that wait for their bytes to arrive check the other rails. */
	rsk_recovery_stir_all(r->l);
}

/* ---- the order of messages, and the way they come ---- */

/* True if this is the next message about that generation; then it counts as received. */
static bool in_turn(struct rsk_remote_rail *rail, const struct rsk_remote_msg *m)
{
	if (m->generation > rail->heard_generation && !m->pos) {
		rail->heard_generation = m->generation;
		rail->heard_turn = 0;
	}
	if (m->generation != rail->heard_generation || m->pos != rail->heard_turn)
		return false;
	rail->heard_turn++;
	return true;
}

static void on_naming(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (!in_turn(&r->rail[m->rail], m))
		return;
	switch (m->type) {
	case RSK_REMOTE_RAIL_DOWN:
		on_lost(r, m);
		break;
	case RSK_REMOTE_MISSING:
		on_gap(r, m);
		break;
	default:
		on_named(r, m);
		break;
	}
}

void rsk_remote_on_missing(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	on_naming(r, m);
	if (m->type == RSK_REMOTE_MISSING_END)
		trust_tcp(&r->rail[m->rail], m->generation);
}

static bool is_naming(const struct rsk_remote_msg *m)
{
	return m->type == RSK_REMOTE_RAIL_DOWN || m->type == RSK_REMOTE_MISSING ||
	       m->type == RSK_REMOTE_MISSING_END;
}

bool rsk_remote_rail_heard(struct rsk_remote_rail *rail, const uint8_t *word)
{
	struct rsk_remote *r = rail->r;
	struct rsk_remote_msg m;

	memcpy(&m, word, sizeof(m));
	if (rsk_remote_msg_check(&m) < 0 || !is_naming(&m))
		return false;
	/*
	 * Of an epoch that has not begun here: the connection delivers it, behind the message that
	 * begins the epoch.
	 */
	if (r->state == RSK_REMOTE_UP && m.epoch == r->epoch)
		on_naming(r, &m);
	return true;
}

static bool is_open(const struct rsk_remote *r)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_LOST)
			return true;
	return false;
}

/*
 * While a rail is lost, messages about it may come by other rails when no other thread polls them;
 * and threads that sleep may rely on us (news.h).
 */
void rsk_remote_watch_news(void)
{
	const struct rsk_remote *r;
	bool sleepers = rsk_news_wanted(), wanted = sleepers;

	DL_FOREACH(rsk_remotes.all, r)
		wanted |= is_open(r);
	if (rsk_rdma_module->hear(rsk_rdma, wanted) && sleepers)
		rsk_news_heard();
}
