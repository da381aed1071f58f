// SPDX-License-Identifier: BSD-2-Clause
/* agent_ask.c - see agent_ask.h. */
#include "agent_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "clock.h"
#include "pma_central.h"

struct rsk_agent_waiting {
	struct rsk_agent_ask *a;
	struct rsk_pma_question q;
	struct rsk_pma_answer ours; /* mode "both": already reserved; the strings are not kept */
	rsk_agent_decided *decided;
	void *user;
	struct rsk_agent_waiting *prev, *next;
};

static enum rsk_conf_pma_mode mode_of(const struct rsk_agent_ask *a)
{
	return a->link ? a->link->mode : RSK_CONF_PMA_LOCAL;
}

static struct rsk_ask_key key_of(const struct rsk_pma_question *q,
				 const struct rsk_pma_answer *ours)
{
	struct rsk_ask_key k = { .uid = q->uid,
				 .ap_port = q->ap_port,
				 .ipv = q->ipv,
				 .side = (uint8_t)q->side,
				 .one = q->cp_port != 0,
				 .placed = ours != NULL };

	memcpy(k.cp_ip, q->cp_ip, 16);
	memcpy(k.ap_ip, q->ap_ip, 16);
	if (ours)
		memcpy(k.at_ip, ours->ip, 16);
	return k;
}

/* ---- answers of the central agent ---- */

static void refuse(struct rsk_agent_ask *a, const struct rsk_ask_answer *said,
		   struct rsk_pma_answer *out)
{
	if (out->verdict == RSK_PMA_MAP && out->reservation)
		rsk_pma_release(a->pma, out->reservation);
	*out = (struct rsk_pma_answer){ .verdict = said->verdict,
					.rule = *said->rule ? said->rule : NULL,
					.redirect_ipv = said->redirect_ipv };
	memcpy(out->redirect_ip, said->redirect_ip, 16);
}

static uint8_t shorter(uint8_t a, uint8_t b)
{
	return a < b ? a : b; /* 0: valid for this request only; 255: permanent */
}

/* Mode "both", and both agree: the stricter bound of the two holds. */
static void agree(const struct rsk_ask_answer *said, struct rsk_pma_answer *out)
{
	out->pm_time_s = shorter(out->pm_time_s, said->pm_time_s);
	if (said->rate_bps && (!out->rate_bps || said->rate_bps < out->rate_bps))
		out->rate_bps = said->rate_bps;
}

/*
 * Mode "central": books what the central agent has decided, if the device is present and has room.
 */
static void admit(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		  const struct rsk_ask_answer *said, struct rsk_pma_answer *out)
{
	struct rsk_pma_question at = *q;

	at.placed = true;
	memcpy(at.at_ip, said->ip, 16);
	*out = (struct rsk_pma_answer){ .rule = *said->rule ? said->rule : NULL,
					.device = *said->device ? said->device : NULL,
					.port = said->port,
					.pm_time_s = said->pm_time_s,
					.priority = said->priority,
					.dscp = said->dscp,
					.rate_bps = said->rate_bps,
					.need = said->need };
	memcpy(out->ip, said->ip, 16);
	out->reservation = rsk_pma_admit(a->pma, &at, &said->need, false, &out->verdict);
	if (out->reservation)
		out->verdict = RSK_PMA_MAP;
}

/*
 * The central agent has granted lease @id. Binds our reservation to it, or gives the lease up if
 * there is none.
 */
static void settle(struct rsk_agent_ask *a, const struct rsk_pma_question *q, uint64_t id,
		   const struct rsk_ask_answer *said, struct rsk_pma_answer *out)
{
	if (out->verdict == RSK_PMA_MAP && out->reservation)
		agree(said, out);
	else
		admit(a, q, said, out);
	if (out->verdict == RSK_PMA_MAP)
		rsk_ask_bind(&a->link->ask, id, out->reservation);
	else
		rsk_ask_give_up(&a->link->ask, id, q->now_ns);
}

/* The central agent has not answered. */
static void unheard(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		    struct rsk_pma_answer *out)
{
	static const struct rsk_ask_answer nothing = { .verdict = RSK_PMA_UNHEARD };

	if (!a->link->local_if_silent) {
		refuse(a, &nothing, out);
		return;
	}
	if (!out->reservation)
		rsk_pma_decide(a->pma, q, out);
	a->silent_mapped += out->verdict == RSK_PMA_MAP;
}

/* ---- questions to the central agent ---- */

static void drop(struct rsk_agent_waiting *w)
{
	DL_DELETE(w->a->waiting, w);
	free(w);
}

static void on_said(void *user, uint64_t id, const struct rsk_ask_answer *said)
{
	struct rsk_agent_waiting *w = user;
	struct rsk_agent_ask *a = w->a;

	w->q.now_ns = rsk_clock_ns();
	if (said->verdict == RSK_PMA_UNHEARD)
		unheard(a, &w->q, &w->ours);
	else if (said->verdict != RSK_PMA_MAP)
		refuse(a, said, &w->ours);
	else
		settle(a, &w->q, id, said, &w->ours);
	if (w->decided)
		w->decided(w->user, &w->ours);
	else if (w->ours.reservation)
		rsk_pma_release(a->pma, w->ours.reservation);
	drop(w);
}

/* Asks the central agent. False: it cannot be asked. */
static bool ask(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		const struct rsk_ask_key *key, const struct rsk_pma_answer *ours,
		rsk_agent_decided *decided, void *user)
{
	struct rsk_agent_waiting *w = malloc(sizeof(*w));

	if (!w)
		return false;
	*w = (struct rsk_agent_waiting){ .a = a, .q = *q, .decided = decided, .user = user };
	w->ours.verdict = RSK_PMA_UNHEARD;
	if (ours)
		w->ours = *ours;
	w->ours.rule = w->ours.device = NULL;
	if (rsk_ask_start(&a->link->ask, key, on_said, w, q->now_ns) < 0) {
		free(w);
		return false;
	}
	DL_APPEND(a->waiting, w);
	rsk_pma_link_arm(a->link);
	return true;
}

/*
 * Answers from leases and refusals that are known, else asks the central agent. False: it was
 * asked.
 */
static bool consult(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		    const struct rsk_ask_key *key, struct rsk_pma_answer *out,
		    rsk_agent_decided *decided, void *user)
{
	const struct rsk_ask_answer *said;
	uint64_t id;

	switch (rsk_ask_find(&a->link->ask, key, q->now_ns, &id, &said)) {
	case RSK_ASK_LEASE:
		settle(a, q, id, said, out);
		return true;
	case RSK_ASK_REFUSAL:
		refuse(a, said, out);
		return true;
	default:
		break;
	}
	if (ask(a, q, key, out->reservation ? out : NULL, decided, user))
		return false;
	unheard(a, q, out);
	return true;
}

/*
 * Answers a repeated question with what was granted before, as long as its device takes sessions.
 */
static bool again(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		  struct rsk_pma_answer *out)
{
	const struct rsk_ask_answer *said;
	struct rsk_ask_key key;

	if (!rsk_ask_of(&a->link->ask, q->held, &key, &said))
		return false;
	*out = (struct rsk_pma_answer){ .verdict = RSK_PMA_NO_DEVICE };
	if (!rsk_pma_stands(a->pma, q->held))
		return true;
	*out = (struct rsk_pma_answer){ .verdict = RSK_PMA_MAP,
					.port = said->port,
					.pm_time_s = said->pm_time_s,
					.priority = said->priority,
					.dscp = said->dscp,
					.rate_bps = said->rate_bps,
					.need = said->need,
					.reservation = q->held };
	memcpy(out->ip, said->ip, 16);
	return true;
}

bool rsk_agent_decide(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		      struct rsk_pma_answer *out, rsk_agent_decided *decided, void *user)
{
	enum rsk_conf_pma_mode mode = mode_of(a);
	struct rsk_ask_key key;

	if (mode == RSK_CONF_PMA_CENTRAL) {
		if (q->held && again(a, q, out))
			return true;
		key = key_of(q, NULL);
		*out = (struct rsk_pma_answer){ .verdict = RSK_PMA_UNHEARD };
		return consult(a, q, &key, out, decided, user);
	}
	rsk_pma_decide(a->pma, q, out);
	/* What is held was agreed to before; on which device it is is our own decision. */
	if (mode == RSK_CONF_PMA_LOCAL || out->verdict != RSK_PMA_MAP || q->held)
		return true;
	key = key_of(q, out);
	return consult(a, q, &key, out, decided, user);
}

void rsk_agent_qos(const struct rsk_agent_ask *a, uint64_t reservation, struct rsk_qos *out)
{
	bool ours = rsk_pma_qos(a->pma, reservation, out);
	const struct rsk_ask_answer *said;
	struct rsk_ask_key key;

	if (mode_of(a) == RSK_CONF_PMA_LOCAL ||
	    !rsk_ask_of(&a->link->ask, reservation, &key, &said))
		return;
	if (!ours || mode_of(a) == RSK_CONF_PMA_CENTRAL)
		*out = (struct rsk_qos){ .rate_bps = said->rate_bps,
					 .dscp = said->dscp,
					 .priority = said->priority };
	else if (said->rate_bps && (!out->rate_bps || said->rate_bps < out->rate_bps))
		out->rate_bps = said->rate_bps;
}

void rsk_agent_forget(struct rsk_agent_ask *a, const void *user)
{
	struct rsk_agent_waiting *w;

	DL_FOREACH(a->waiting, w)
		if (w->user == user)
			w->decided = NULL;
}

/* ---- observer of reservations ---- */

static void on_confirmed(void *ctx, uint64_t reservation)
{
	struct rsk_agent_ask *a = ctx;

	if (!a->link)
		return;
	rsk_ask_confirmed(&a->link->ask, reservation);
	rsk_pma_link_arm(a->link);
}

static void on_released(void *ctx, uint64_t reservation)
{
	struct rsk_agent_ask *a = ctx;

	if (a->quota_ops)
		a->quota_ops->ended(a->quota_ctx, reservation);
	if (!a->link)
		return;
	rsk_ask_released(&a->link->ask, reservation, rsk_clock_ns());
	rsk_pma_link_arm(a->link);
}

static void on_moved(void *ctx, uint64_t from, uint64_t to)
{
	struct rsk_agent_ask *a = ctx;

	if (a->quota_ops)
		a->quota_ops->moved(a->quota_ctx, from, to);
	if (a->link)
		rsk_ask_moved(&a->link->ask, from, to);
}

static void on_changed(void *ctx)
{
	struct rsk_agent_ask *a = ctx;

	if (!a->link)
		return;
	rsk_ask_changed(&a->link->ask, rsk_clock_ns());
	rsk_pma_link_arm(a->link);
}

static void observe(struct rsk_agent_ask *a)
{
	const struct rsk_pma_observer watch = { .confirmed = on_confirmed,
						.released = on_released,
						.moved = on_moved,
						.changed = on_changed,
						.ctx = a };

	rsk_pma_observe(a->pma, &watch);
}

void rsk_agent_ask_init(struct rsk_agent_ask *a, struct rsk_pma *pma, struct rsk_pma_link *link)
{
	*a = (struct rsk_agent_ask){ .pma = pma, .link = link };
	if (link)
		observe(a);
}

void rsk_agent_ask_quotas(struct rsk_agent_ask *a, const struct rsk_agent_quota_ops *ops, void *ctx)
{
	a->quota_ops = ops;
	a->quota_ctx = ctx;
	observe(a);
}

void rsk_agent_ask_fini(struct rsk_agent_ask *a)
{
	static const struct rsk_pma_observer nobody;
	struct rsk_agent_waiting *w, *next;

	if (a->pma)
		rsk_pma_observe(a->pma, &nobody);
	DL_FOREACH_SAFE(a->waiting, w, next)
		drop(w);
}
