// SPDX-License-Identifier: BSD-2-Clause
/* pm_world.c - see pm_world.h. */
#include "pm_world.h"

#include <criterion/criterion.h>
#include <string.h>

#define PM_PORT 3935
#define FIRST_SERVICE 5000
#define FIRST_RDMA 20000

uint64_t world_roll(struct world *w, uint64_t below)
{
	return dice_roll(&w->dice) % below;
}

bool world_chance(struct world *w, uint32_t of_1000)
{
	return world_roll(w, 1000) < of_1000;
}

uint16_t world_rdma_port(int service)
{
	return (uint16_t)(FIRST_RDMA + service);
}

static struct rsk_pm_addr address(int net, int number, uint16_t port)
{
	return (struct rsk_pm_addr){ .ip = { 10, (uint8_t)net, 0, (uint8_t)(number + 1) },
				     .port = port,
				     .ipv = RSK_PM_IPV4 };
}

/* ---- the network ---- */

static void fly(struct world *w, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to,
		const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < WORLD_FLIGHT; i++) {
		struct world_datagram *d = &w->flight[i];

		if (d->due_ns)
			continue;
		*d = (struct world_datagram){ .from = *from, .to = *to, .n = n };
		d->due_ns = w->now_ns + 1 + world_roll(w, w->net.delay_ns);
		memcpy(d->bytes, bytes, n);
		/*
		 * Damage that UDP's checksum lets through: another transaction's handle, or a
		 * datagram that is too short.
		 */
		if (world_chance(w, w->net.garble)) {
			w->faults++;
			if (world_chance(w, 500))
				d->n = 1 + world_roll(w, n);
			else
				d->bytes[8 + world_roll(w, 8)] ^= (uint8_t)(1 + world_roll(w, 255));
		}
		w->flying++;
		return;
	}
	cr_assert_fail("too much in flight");
}

static void post(struct world *w, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to,
		 const void *bytes, size_t n)
{
	if (world_chance(w, w->net.lose)) {
		w->faults++;
		return;
	}
	fly(w, from, to, bytes, n);
	if (world_chance(w, w->net.twice)) {
		w->faults++;
		fly(w, from, to, bytes, n);
	}
}

static void deliver(struct world *w, struct world_datagram *slot)
{
	struct world_datagram d = *slot;

	slot->due_ns = 0;
	w->flying--;
	if (world_chance(w, w->net.replay)) {
		w->faults++;
		fly(w, &d.from, &d.to, d.bytes, d.n);
	}
	for (int i = 0; i < WORLD_APS; i++)
		if (rsk_pm_addr_equal(&w->ap[i].host.at, &d.to))
			rsk_pmsp_receive(&w->ap[i].pmsp, &d.from, d.bytes, d.n, w->now_ns);
	for (int i = 0; i < WORLD_CPS; i++)
		if (rsk_pm_addr_equal(&w->cp[i].host.at, &d.to))
			rsk_pm_client_receive(&w->cp[i].client, &d.from, d.bytes, d.n, w->now_ns);
}

/* ---- an AP's policy ---- */

static struct world_grant *grant_of(struct world *w, uint64_t id)
{
	cr_assert(id && id <= w->n_grants, "a grant that was never made");
	return &w->grants[id - 1];
}

static void give_back(struct world *w, struct world_grant *g)
{
	w->ap[g->ap].room[g->service]++;
	g->state = WORLD_BACK;
}

static void ap_release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	struct world_host *h = ctx;
	struct world_grant *g = grant_of(h->w, grant->id);

	cr_assert_eq(g->state, WORLD_HELD, "released, but not held");
	cr_assert_eq(g->ap, h->number);
	give_back(h->w, g);
}

static void ap_used(void *ctx, const struct rsk_pmsp_grant *grant)
{
	struct world_host *h = ctx;
	struct world_grant *g = grant_of(h->w, grant->id);

	cr_assert_eq(grant->port, world_rdma_port(g->service));
	cr_assert_eq(g->state, WORLD_HELD, "used, but not held");
	cr_assert_neq(g->req.cp_port, 0, "a service mapping is for no link");
	g->state = WORLD_SESSION;
}

static bool same_request(const struct rsk_pm_msg *a, const struct rsk_pm_msg *b)
{
	return a->assoc_handle == b->assoc_handle && a->cp_port == b->cp_port &&
	       a->ap_port == b->ap_port && memcmp(a->cp_ip, b->cp_ip, 16) == 0 &&
	       memcmp(a->ap_ip, b->ap_ip, 16) == 0;
}

static enum rsk_pmsp_verdict choose(struct world_host *h, const struct rsk_pm_msg *req,
				    struct rsk_pmsp_grant *grant)
{
	struct world *w = h->w;
	struct world_ap *ap = &w->ap[h->number];
	int service = req->ap_port - FIRST_SERVICE;

	if (service < 0 || service >= WORLD_SERVICES || !ap->up[service])
		return RSK_PMSP_DENY;
	if (grant->id) {
		cr_assert(same_request(&grant_of(w, grant->id)->req, req),
			  "a duplicate of another request");
		cr_assert_eq(grant_of(w, grant->id)->state, WORLD_HELD);
	} else {
		if (!ap->room[service])
			return RSK_PMSP_DENY;
		ap->room[service]--;
		cr_assert_lt(w->n_grants, WORLD_GRANTS);
		w->grants[w->n_grants++] = (struct world_grant){
			.state = WORLD_HELD, .ap = h->number, .service = service, .req = *req
		};
		grant->id = w->n_grants;
	}
	memcpy(grant->ip, h->at.ip, 16);
	grant->port = world_rdma_port(service);
	grant->pm_time_s = ap->pm_time_s[service];
	return RSK_PMSP_ACCEPT;
}

static enum rsk_pmsp_verdict ap_decide(void *ctx, const struct rsk_pm_msg *req,
				       const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	struct world_host *h = ctx;
	struct world_ap *ap = &h->w->ap[h->number];

	if (ap->later && !grant->id && ap->n_asked < 64) {
		ap->asked[ap->n_asked++] = *req;
		return RSK_PMSP_WAIT;
	}
	return choose(h, req, grant);
}

void world_decide(struct world *w, int number)
{
	struct world_ap *ap = &w->ap[number];

	for (int i = 0; i < ap->n_asked; i++) {
		struct rsk_pmsp_grant g = { 0 };
		enum rsk_pmsp_verdict v = choose(&ap->host, &ap->asked[i], &g);

		if (!rsk_pmsp_decided(&ap->pmsp, &ap->asked[i], v, &g, w->now_ns) && g.id)
			give_back(w, grant_of(w, g.id));
	}
	ap->n_asked = 0;
}

static void host_send(void *ctx, const struct rsk_pm_addr *to, const void *bytes, size_t n)
{
	struct world_host *h = ctx;

	post(h->w, &h->at, to, bytes, n);
}

/* ---- a CP ---- */

static uint64_t cp_random(void *ctx)
{
	struct world_host *h = ctx;

	return dice_roll(&h->w->dice) | 1;
}

static void answered(struct world *w, struct world_question *q, enum rsk_pm_outcome outcome,
		     const struct rsk_pm_mapping *m)
{
	cr_assert_eq(q->answers++, 0, "answered twice");
	q->outcome = outcome;
	if (outcome != RSK_PM_MAPPED)
		return;
	q->mapping = *m;
	cr_assert_eq(m->rdma.port, world_rdma_port(q->service), "another service's answer");
	cr_assert_arr_eq(m->rdma.ip, w->ap[q->ap].host.at.ip, 16, "another host's answer");
}

static void cp_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
		    const struct rsk_pm_mapping *m)
{
	struct world_host *h = ctx;
	struct world_question *q = user;

	cr_assert_eq(q->cp, h->number, "another CP's answer");
	answered(h->w, q, outcome, m);
}

size_t world_ask(struct world *w, int cp, int ap, int service, uint16_t cp_port)
{
	struct world_question *q = &w->questions[w->n_questions];
	struct rsk_pm_msg req = { .op = RSK_PM_REQ,
				  .ipv = RSK_PM_IPV4,
				  .ap_port = (uint16_t)(FIRST_SERVICE + service),
				  .cp_port = cp_port };
	struct rsk_pm_mapping m = { 0 };
	int rc;

	cr_assert_lt(w->n_questions, WORLD_QUESTIONS);
	*q = (struct world_question){ .cp = cp, .ap = ap, .service = service, .cp_port = cp_port };
	memcpy(req.cp_ip, w->cp[cp].host.at.ip, 16);
	memcpy(req.ap_ip, w->ap[ap].host.at.ip, 16);
	rc = rsk_pm_client_ask(&w->cp[cp].client, &req, &w->ap[ap].host.at, q, w->now_ns, &m);
	cr_assert_geq(rc, 0, "ask: %d", rc);
	if (rc != RSK_PM_PENDING)
		answered(w, q, (enum rsk_pm_outcome)rc, &m);
	return w->n_questions++;
}

bool world_link(struct world *w, size_t question, bool from_elsewhere)
{
	const struct world_question *q = &w->questions[question];
	struct world_ap *ap = &w->ap[q->ap];
	const struct rsk_pm_addr *own = &w->cp[q->cp].host.at, other = address(9, 9, 999);
	struct rsk_pm_msg name = { .ipv = RSK_PM_IPV4,
				   .ap_port = (uint16_t)(FIRST_SERVICE + q->service),
				   .cp_port = q->cp_port,
				   .assoc_handle = q->mapping.handle };
	struct world_grant *g;
	uint8_t announced[16];
	uint64_t id;

	memcpy(name.cp_ip, own->ip, 16);
	memcpy(name.ap_ip, ap->host.at.ip, 16);
	id = rsk_pmsp_link_named(&ap->pmsp, &name, &q->mapping.rdma,
				 from_elsewhere ? other.ip : own->ip, announced);
	if (!id) {
		w->links_refused++;
		return false;
	}
	w->links++;
	g = grant_of(w, id);
	cr_assert(!from_elsewhere, "a link that nobody announced was let in");
	cr_assert_eq(g->service, q->service);
	cr_assert_arr_eq(g->req.cp_ip, own->ip, 16);
	give_back(w, g); /* a short session */
	return true;
}

void world_forge(struct world *w, int number)
{
	struct rsk_pm_addr from = address(200, (int)world_roll(w, 200), 1000);
	uint8_t bytes[64];

	for (size_t i = 0; i < sizeof(bytes); i += 8) {
		uint64_t v = dice_roll(&w->dice);

		memcpy(bytes + i, &v, 8);
	}
	if (world_chance(w, 800)) {
		static const uint8_t op[] = { 0x04, 0x04, 0x14, 0x24, 0x34 };
		uint16_t port = htobe16((uint16_t)(FIRST_SERVICE + world_roll(w, WORLD_SERVICES)));

		bytes[0] = op[world_roll(w, 5)];
		memcpy(bytes + 4, &port, 2);
		memset(bytes + 20, 0, 12);
		memcpy(bytes + 32, w->ap[number].host.at.ip, 16);
		memset(bytes + 48, 0, 16);
	}
	post(w, &from, &w->ap[number].host.at, bytes, sizeof(bytes));
}

/* ---- the whole world ---- */

static const struct rsk_pmsp_ops ap_ops = { .decide = ap_decide,
					    .used = ap_used,
					    .release = ap_release,
					    .send = host_send };
static const struct rsk_pm_client_ops cp_ops = { .random = cp_random,
						 .send = host_send,
						 .done = cp_done };

struct world *world_new(uint64_t seed, const struct world_net *net,
			const struct rsk_pmsp_config *pmsp,
			const struct rsk_pm_client_config *client)
{
	struct world *w = calloc(1, sizeof(*w));

	cr_assert(w);
	w->dice = seed;
	w->now_ns = 1;
	w->net = *net;
	for (int i = 0; i < WORLD_APS; i++) {
		struct world_ap *ap = &w->ap[i];

		ap->host = (struct world_host){ w, i, address(1, i, PM_PORT) };
		cr_assert_eq(rsk_pmsp_init(&ap->pmsp, pmsp, &ap_ops, &ap->host), 0);
		for (int s = 0; s < WORLD_SERVICES; s++) {
			ap->up[s] = true;
			ap->room[s] = 1000;
		}
	}
	for (int i = 0; i < WORLD_CPS; i++) {
		w->cp[i].host = (struct world_host){ w, i, address(2, i, 40000) };
		rsk_pm_client_init(&w->cp[i].client, client, &cp_ops, &w->cp[i].host);
	}
	return w;
}

void world_free(struct world *w)
{
	for (int i = 0; i < WORLD_APS; i++)
		rsk_pmsp_fini(&w->ap[i].pmsp);
	for (int i = 0; i < WORLD_CPS; i++)
		rsk_pm_client_fini(&w->cp[i].client);
	free(w);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct world_datagram *first_due(struct world *w, uint64_t until)
{
	struct world_datagram *first = NULL;

	for (size_t i = 0, seen = 0; i < WORLD_FLIGHT && seen < w->flying; i++) {
		struct world_datagram *d = &w->flight[i];

		if (!d->due_ns)
			continue;
		seen++;
		if (d->due_ns <= until && (!first || d->due_ns < first->due_ns))
			first = d;
	}
	return first;
}

static uint64_t first_timer(const struct world *w)
{
	uint64_t at = UINT64_MAX;

	for (int i = 0; i < WORLD_APS; i++)
		at = least(at, rsk_pmsp_next(&w->ap[i].pmsp));
	for (int i = 0; i < WORLD_CPS; i++)
		at = least(at, rsk_pm_client_next(&w->cp[i].client));
	return at;
}

static void validate(struct world *w)
{
	for (int i = 0; i < WORLD_APS; i++)
		cr_assert(rsk_pmsp_validate(&w->ap[i].pmsp));
	for (int i = 0; i < WORLD_CPS; i++)
		cr_assert(rsk_pm_client_validate(&w->cp[i].client));
}

void world_run(struct world *w, uint64_t ns)
{
	uint64_t until = w->now_ns + ns, timer;
	struct world_datagram *d;

	for (;;) {
		timer = first_timer(w);
		d = first_due(w, least(until, timer));
		if (d) {
			w->now_ns = d->due_ns;
			deliver(w, d);
			continue;
		}
		if (timer > until)
			break;
		w->now_ns = timer > w->now_ns ? timer : w->now_ns;
		for (int i = 0; i < WORLD_APS; i++)
			rsk_pmsp_tick(&w->ap[i].pmsp, w->now_ns);
		for (int i = 0; i < WORLD_CPS; i++)
			rsk_pm_client_tick(&w->cp[i].client, w->now_ns);
	}
	w->now_ns = until;
	validate(w);
}

void world_settle(struct world *w)
{
	w->net.replay = 0; /* otherwise the replays never end */
	for (int i = 0; i < WORLD_APS; i++)
		world_decide(w, i);
	world_run(w, 600000000000);
	cr_assert_eq(w->flying, 0);
	for (size_t i = 0; i < w->n_questions; i++)
		cr_assert_eq(w->questions[i].answers, 1, "question %zu: %d answers", i,
			     w->questions[i].answers);
	for (size_t i = 0; i < w->n_grants; i++)
		cr_assert_neq(w->grants[i].state, WORLD_HELD, "grant %zu is still held", i + 1);
	for (int i = 0; i < WORLD_APS; i++)
		cr_assert_eq(w->ap[i].pmsp.table.n, 0, "AP %d has open transactions", i);
	for (int i = 0; i < WORLD_CPS; i++)
		cr_assert_null(w->cp[i].client.by_handle, "CP %d has open transactions", i);
}
