// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_link.c - tests a central policy agent's books, together with local agents: messages are
 * lost and either side is restarted, at random.
 */
#include "dice.h"
#include "pma_central.h"
#include "pma_kit.h"
#include "pma_link_kit.h"

/* ---- the central agent ---- */

static const char fabric[] =
	"rnics: [{name: b0, node: b, addresses: [10.0.0.2], sessions: 100}]\n"
	"services: [{name: web, ports: ['80'], limits: {sessions: 5}, pm-time: 3s}]\n"
	"rules: [{name: any}]\n";

static const struct rsk_central_config central_config = { .lost_ns = 300 * MS,
							  .lease_ns = 40 * MS,
							  .max_nodes = 4,
							  .max_leases = 50 };

static struct rsk_central_device *device(enum rsk_pma_device_state state)
{
	struct rsk_central_device *d = calloc(1, sizeof(*d));

	cr_assert_not_null(d);
	*d = (struct rsk_central_device){
		.name = "r0", .ip = { 10, 0, 0, 2 }, .ipv = 4, .state = state
	};
	return d;
}

static enum rsk_pma_device_state state_of(const struct rsk_pma *a)
{
	struct rsk_pma_device_view v;

	cr_assert_eq(rsk_pma_devices(a, &v, 1), 1);
	return v.state;
}

Test(pma_central, nodes_come_and_go)
{
	struct rsk_pma *pma = pma_of(fabric);
	struct rsk_ask_key key = key_of(80);
	struct rsk_central_node *node;
	struct rsk_ask_answer out;
	struct rsk_central c;

	key.placed = 1;
	memcpy(key.at_ip, key.ap_ip, 16);
	rsk_central_init(&c, &central_config, pma, 0);
	cr_assert(rsk_central_in_grace(&c, 299 * MS) && !rsk_central_in_grace(&c, 300 * MS));
	cr_assert_null(rsk_central_find(&c, "b", 1));
	cr_assert_null(rsk_central_report(&c, "b", 1, false, 0, true, 0, device(RSK_PMA_UP), 1, MS),
		       "it has to say what it holds");
	node = rsk_central_report(&c, "b", 1, true, 0, false, 0, device(RSK_PMA_UP), 1, MS);
	cr_assert_not_null(node);
	cr_assert_null(rsk_central_find(&c, "b", 1), "all of it");
	cr_assert_null(rsk_central_report(&c, "b", 1, true, 2, true, 0, device(RSK_PMA_UP), 1, MS),
		       "a part is missing");
	cr_assert_null(rsk_central_report(&c, "x", 1, true, 1, true, 0, NULL, 0, MS),
		       "the first part was told to somebody else");
	node = rsk_central_report(&c, "b", 1, true, 1, true, 0, device(RSK_PMA_DRAINING), 1, MS);
	cr_assert_eq(rsk_central_find(&c, "b", 1), node);
	cr_assert_null(rsk_central_find(&c, "b", 2));
	cr_assert_eq(state_of(pma), RSK_PMA_DRAINING);
	rsk_central_decide(&c, node, 1, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_NO_DEVICE);
	rsk_central_report(&c, "b", 1, false, 0, true, 0, device(RSK_PMA_UP), 1, 2 * MS);
	for (uint64_t id = 1; id <= 7; id++) {
		rsk_central_decide(&c, node, id, &key, 2 * MS, &out);
		cr_assert_eq(out.verdict, id <= 5 ? RSK_PMA_MAP : RSK_PMA_LIMIT);
		cr_assert_eq(out.lease_ns, id <= 5 ? 40 * MS : 0);
	}
	rsk_central_decide(&c, node, 3, &key, 2 * MS, &out);
	cr_assert(out.verdict == RSK_PMA_MAP && c.n_grants == 5,
		  "the same question is the same grant");
	rsk_central_confirm(&c, node, 3);
	rsk_central_release(&c, node, 1);
	rsk_central_release(&c, node, 1);
	cr_assert(c.n_grants == 4 && rsk_central_validate(&c) && rsk_pma_validate(pma));
	/* States set by an operator and reported by the node: the worse one counts. */
	rsk_pma_device_set(pma, "b0", RSK_PMA_DRAINING);
	cr_assert_eq(state_of(pma), RSK_PMA_DRAINING);
	rsk_pma_device_set(pma, "b0", RSK_PMA_UP);
	rsk_central_tick(&c, 301 * MS);
	cr_assert_eq(state_of(pma), RSK_PMA_UP, "heard of at 2");
	rsk_central_tick(&c, 310 * MS);
	cr_assert(state_of(pma) == RSK_PMA_DOWN && c.n_grants == 0 && c.n_nodes == 0);
	cr_assert(c.count.lost == 1 && c.count.expired == 4 && rsk_pma_validate(pma));
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

Test(pma_central, another_life_of_a_node)
{
	struct rsk_pma *pma = pma_of(fabric);
	struct rsk_ask_item item = { .id = 9, .key = key_of(80), .used = true };
	struct rsk_central_node *node;
	struct rsk_ask_answer out;
	struct rsk_central c;

	rsk_central_init(&c, &central_config, pma, 0);
	rsk_central_tick(&c, 400 * MS);
	cr_assert_eq(state_of(pma), RSK_PMA_DOWN, "nobody has reported it");
	node = rsk_central_report(&c, "b", 1, true, 0, true, 0, device(RSK_PMA_UP), 1, 400 * MS);
	memcpy(item.answer.ip, item.key.ap_ip, 16);
	rsk_central_resume(&c, node, &item, 400 * MS);
	rsk_central_resume(&c, node, &item, 400 * MS);
	cr_assert(c.n_grants == 1 && c.count.resumed == 1, "once");
	rsk_central_decide(&c, node, 10, &item.key, 400 * MS, &out);
	cr_assert(out.verdict == RSK_PMA_MAP && c.n_grants == 2);
	node = rsk_central_report(&c, "b", 2, true, 0, true, 0, device(RSK_PMA_UP), 1, 401 * MS);
	cr_assert(node && c.n_grants == 0 && c.n_nodes == 1 && rsk_pma_validate(pma));
	/* More than the limit, since they exist already: then no more is granted. */
	for (uint64_t id = 1; id <= 8; id++) {
		item.id = id;
		rsk_central_resume(&c, node, &item, 402 * MS);
	}
	cr_assert_eq(c.n_grants, 8);
	rsk_central_decide(&c, node, 20, &item.key, 402 * MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_LIMIT);
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

Test(pma_central, a_device_that_it_does_not_know)
{
	struct rsk_pma *pma =
		pma_of("services: [{name: web, ports: ['80'], limits: {sessions: 2}}]\n"
		       "rules: [{name: fast, when: {bandwidth-free: 1Gbit}},\n"
		       "        {name: any, when: {peers: [10.0.0.1]}}]\n");
	struct rsk_ask_key key = key_of(80);
	struct rsk_central_node *node;
	struct rsk_ask_answer out;
	struct rsk_central c;

	rsk_central_init(&c, &central_config, pma, 0);
	node = rsk_central_report(&c, "b", 1, true, 0, true, 0, NULL, 0, MS);
	rsk_central_decide(&c, node, 1, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_NO_DEVICE, "it has none to choose from");
	key.placed = 1;
	memcpy(key.at_ip, key.ap_ip, 16);
	rsk_central_decide(&c, node, 1, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_MAP);
	cr_assert_str_eq(out.rule, "any", "what asks for the device does not hold");
	cr_assert_eq(memcmp(out.ip, key.at_ip, 16), 0);
	rsk_central_decide(&c, node, 2, &key, MS, &out);
	rsk_central_decide(&c, node, 3, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_LIMIT);
	rsk_central_release(&c, node, 2);
	rsk_central_decide(&c, node, 3, &key, MS, &out);
	cr_assert(out.verdict == RSK_PMA_MAP && rsk_pma_validate(pma));
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

Test(pma_central, the_load_of_the_node_that_asks)
{
	struct rsk_pma *pma = pma_of("services: [{name: web, ports: ['80']}]\n"
				     "rules: [{name: idle, when: {load-below: 50%}}]\n");
	struct rsk_ask_key key = key_of(80);
	struct rsk_central_node *busy, *idle;
	struct rsk_ask_answer out;
	struct rsk_central c;

	key.placed = 1;
	rsk_central_init(&c, &central_config, pma, 0);
	busy = rsk_central_report(&c, "b", 1, true, 0, true, 0.9, NULL, 0, MS);
	idle = rsk_central_report(&c, "i", 1, true, 0, true, 0.1, NULL, 0, MS);
	rsk_pma_load_set(pma, 0.7); /* the central agent's own load */
	rsk_central_decide(&c, busy, 1, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_OVERLOAD);
	rsk_central_decide(&c, idle, 1, &key, MS, &out);
	cr_assert_eq(out.verdict, RSK_PMA_MAP);
	cr_assert(rsk_pma_load(pma) > 0.6 && rsk_pma_load(pma) < 0.8, "ours stays as it was");
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

Test(pma_central, one_that_takes_over)
{
	struct rsk_pma *pma = pma_of(fabric);
	struct rsk_central c;

	rsk_central_init(&c, &central_config, pma, 0);
	rsk_central_tick(&c, 300 * MS);
	cr_assert(!rsk_central_in_grace(&c, 900 * MS) && rsk_central_next(&c) == UINT64_MAX);
	rsk_central_take_over(&c, 1000 * MS);
	cr_assert(rsk_central_in_grace(&c, 1299 * MS) && !rsk_central_in_grace(&c, 1300 * MS));
	cr_assert_eq(rsk_central_next(&c), 1300 * MS);
	rsk_central_tick(&c, 1300 * MS);
	cr_assert_eq(rsk_central_next(&c), UINT64_MAX);
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

/* ---- both, over a connection that loses messages ---- */

#define NODES 3
#define SESSIONS 200
#define LIMIT 230 /* so that what a node holds takes more than one report */

struct side {
	struct rsk_ask a;
	struct asker w[SESSIONS];
	bool busy[SESSIONS]; /* asked, or holding */
	size_t at;	     /* which agent it asks */
	uint64_t role;	     /* by which it has found that one */
	uint64_t turn_ns;    /* when it hears that another one has the role; 0: it knows */
};

/* Of the agents one has the role; it dies at times, and the role moves to the other one. */
struct world {
	struct rsk_pma *pma[2];
	struct rsk_central c[2];
	size_t active;
	struct side nodes[NODES];
	uint64_t dice, now, boots, role;
};

static uint64_t roll(uint64_t *dice, uint64_t sides)
{
	return dice_roll(dice) % sides;
}

static void carry(struct world *o, size_t i)
{
	static const char *const names[NODES] = { "a", "b", "c" };
	struct rsk_ask_answer answers[RSK_ASK_BATCH];
	struct rsk_ask *a = &o->nodes[i].a;
	struct rsk_central *c = &o->c[o->nodes[i].at];
	uint64_t ids[RSK_ASK_BATCH];
	struct rsk_central_node *node;
	enum rsk_ask_kind kind = next(a, o->now);

	if (kind == RSK_ASK_NOTHING)
		return;
	if (o->nodes[i].role != o->role) { /* that agent stands by */
		rsk_ask_failed(a, o->now);
		return;
	}
	/*
	 * Lost on its way there. Six lost reports in a row are avoided, as the central agent would
	 * give up a node that is alive.
	 */
	if (roll(&o->dice, kind == RSK_ASK_REPORT ? 100 : 20) == 0) {
		rsk_ask_failed(a, o->now);
		return;
	}
	if (kind == RSK_ASK_REPORT)
		node = rsk_central_report(c, names[i], a->config.boot, resume, a->part, last, 0,
					  NULL, 0, o->now);
	else
		node = rsk_central_find(c, names[i], a->config.boot);
	for (size_t k = 0; node && k < n_items; k++) {
		ids[k % RSK_ASK_BATCH] = items[k].id;
		if (kind == RSK_ASK_REPORT)
			rsk_central_resume(c, node, &items[k], o->now);
		else if (kind == RSK_ASK_RELEASE)
			rsk_central_release(c, node, items[k].id);
		else if (kind == RSK_ASK_CONFIRM)
			rsk_central_confirm(c, node, items[k].id);
		else if (!rsk_central_in_grace(c, o->now))
			rsk_central_decide(c, node, items[k].id, &items[k].key, o->now,
					   &answers[k]);
	}
	if (!node)
		rsk_ask_unknown(a, o->now);
	else if (roll(&o->dice, 20) == 0 || /* or on its way back */
		 (kind == RSK_ASK_DECIDE && rsk_central_in_grace(c, o->now)))
		rsk_ask_failed(a, o->now);
	else {
		if (kind == RSK_ASK_REPORT)
			rsk_ask_hold(a, c->config.lost_ns);
		rsk_ask_answered(a, ids, answers, kind == RSK_ASK_DECIDE ? n_items : 0, o->now);
	}
	cr_assert(rsk_ask_validate(a) && rsk_central_validate(c));
}

static void start_node(struct world *o, size_t i)
{
	struct rsk_ask_config mine = pma_link_config;

	mine.boot = ++o->boots;
	mine.max_questions = 64;
	mine.max_idle = 20;
	memset(&o->nodes[i], 0, sizeof(o->nodes[i]));
	rsk_ask_init(&o->nodes[i].a, &mine);
	o->nodes[i].at = o->active;
	o->nodes[i].role = o->role;
}

/* The role moves to the other agent; the nodes hear of it one after the other, within the grace. */
static void move_role(struct world *o)
{
	o->active ^= 1;
	o->role++;
	rsk_central_take_over(&o->c[o->active], o->now);
	for (size_t i = 0; i < NODES; i++)
		o->nodes[i].turn_ns = o->now + 1 + roll(&o->dice, 100 * MS);
}

static void turn(struct world *o, size_t i)
{
	struct side *n = &o->nodes[i];

	if (!n->turn_ns || o->now < n->turn_ns)
		return;
	if (roll(&o->dice, 4) == 0) { /* for a moment it knows of none */
		rsk_ask_turn(&n->a, 0, o->now);
		n->turn_ns = o->now + 1 + roll(&o->dice, 20 * MS);
	} else {
		rsk_ask_turn(&n->a, ++o->boots, o->now);
		n->turn_ns = 0;
		n->at = o->active;
		n->role = o->role;
	}
	cr_assert(rsk_ask_validate(&n->a));
}

static void start_agent(struct world *o, size_t i)
{
	static const char text[] =
		"services: [{name: web, ports: ['80'], limits: {sessions: 230}}]\n";
	struct rsk_central_config many = central_config;

	many.max_leases = 1000;
	o->pma[i] = pma_of(text);
	rsk_central_init(&o->c[i], &many, o->pma[i], o->now);
}

static void end_agent(struct world *o, size_t i)
{
	rsk_central_fini(&o->c[i]);
	rsk_pma_free(o->pma[i]);
}

static void act(struct world *o, size_t i)
{
	size_t s = roll(&o->dice, SESSIONS);
	struct side *n = &o->nodes[i];
	const struct rsk_ask_answer *said;
	struct asker *w = &n->w[s];
	struct rsk_ask_key key = key_of(80), old;
	uint64_t id;

	key.placed = 1;
	key.at_ip[0] = 9;
	if (n->busy[s]) {
		if (!w->told)
			return;
		if (rsk_ask_of(&n->a, s + 1, &old, &said)) {
			if (roll(&o->dice, 2))
				rsk_ask_confirmed(&n->a, s + 1);
			else
				rsk_ask_released(&n->a, s + 1, o->now);
			return;
		}
		n->busy[s] = false;
		return;
	}
	*w = (struct asker){ .a = &n->a, .local = s + 1 };
	if (rsk_ask_find(&n->a, &key, o->now, &id, &said) == RSK_ASK_LEASE) {
		rsk_ask_bind(&n->a, id, s + 1);
		w->told = 1;
		n->busy[s] = true;
	} else {
		n->busy[s] = rsk_ask_start(&n->a, &key, on_said, w, o->now) == 0;
	}
}

/* Held by any node: the number that the central agent's limit applies to. */
static uint32_t all_held(const struct world *o)
{
	uint32_t n = 0;

	for (size_t i = 0; i < NODES; i++)
		n += o->nodes[i].a.held;
	return n;
}

Test(pma_link, never_more_than_the_limit_whoever_dies, .timeout = 100)
{
	static struct world o;
	uint32_t most = 0, calm = 0;

	o = (struct world){ .dice = dice_seed("pma_link") };
	for (size_t i = 0; i < 2; i++)
		start_agent(&o, i);
	for (size_t i = 0; i < NODES; i++)
		start_node(&o, i);
	for (int step = 0; step < 200000; step++) {
		size_t i = roll(&o.dice, NODES);

		o.now += roll(&o.dice, 2 * MS);
		for (size_t k = 0; k < 2; k++)
			rsk_central_tick(&o.c[k], o.now);
		rsk_ask_tick(&o.nodes[i].a, o.now);
		turn(&o, i);
		act(&o, i);
		carry(&o, i);
		if (roll(&o.dice, 20000) == 0) { /* a node dies */
			rsk_ask_fini(&o.nodes[i].a);
			start_node(&o, i);
		}
		if (roll(&o.dice, 10000) == 0) { /* the central agent dies */
			end_agent(&o, o.active);
			start_agent(&o, o.active);
		}
		/* Above all when nothing more may be granted. */
		if (roll(&o.dice, all_held(&o) < LIMIT - 5 ? 10000 : 100) == 0)
			move_role(&o);
		cr_assert_leq(all_held(&o), LIMIT, "step %d", step);
		most = all_held(&o) > most ? all_held(&o) : most;
		calm += all_held(&o) >= LIMIT - 20;
	}
	cr_assert(most == LIMIT && calm > 1000, "most %u, often enough %u", most, calm);
	/*
	 * Everything comes back in the end, and so does what was asked before and is granted only
	 * now.
	 */
	for (int step = 0; step < 3000; step++) {
		o.now += MS;
		for (size_t k = 0; k < 2; k++)
			rsk_central_tick(&o.c[k], o.now);
		for (size_t i = 0; i < NODES; i++) {
			turn(&o, i);
			rsk_ask_tick(&o.nodes[i].a, o.now);
			for (size_t s = 0; s < SESSIONS; s++)
				rsk_ask_released(&o.nodes[i].a, s + 1, o.now);
			carry(&o, i);
		}
	}
	for (size_t i = 0; i < NODES; i++) {
		cr_assert(o.nodes[i].a.held == 0 && o.nodes[i].a.idle == 0);
		rsk_ask_fini(&o.nodes[i].a);
	}
	for (size_t i = 0; i < 2; i++) {
		cr_assert(o.c[i].n_grants == 0 && rsk_pma_validate(o.pma[i]), "left over: %zu",
			  o.c[i].n_grants);
		end_agent(&o, i);
	}
}
