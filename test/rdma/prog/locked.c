// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked.c - mode locked of verbs_pair (pair.c). For so many seconds, initiators on two rails
 * reserve and give back in one record in the server's memory, and add to a word of it. At the end
 * the record must hold what the initiators were told. Then one initiator keeps the lock: others are
 * refused, and break it. The server only reads the record at the end.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"
#include "reserve.h"

#define INITIATORS 8u /* holders 1 .. 8, on both rails in turn */
#define HOLDERS (INITIATORS + 1)
#define OFF 4096u /* of the record in the ring */
#define RETRIES 8u
#define BREAK_NS 400000000ull
#define PATIENCE_NS 120000000000ull

static const uint64_t limit[] = { 1000, 2, RSK_RESERVE_NO_LIMIT };
static const uint64_t need[] = { 100, 1, 7 };

enum turn {
	JOIN,
	TAKE,
	ADD,
	GIVE,
	TURNS
};

struct initiator {
	struct rsk_locker by;
	struct rsk_reserve todo;
	struct rsk_rail *rail;
	const struct rsk_mech_verbs *mech;
	enum turn turn;
	bool under_way, ended;
	uint64_t adds, taken, refused, busy;
};

static struct initiator all[INITIATORS];

static void begin_turn(struct initiator *in)
{
	switch (in->turn) {
	case JOIN:
		rsk_reserve_join(&in->todo, &in->by, RETRIES, BREAK_NS);
		break;
	case TAKE:
		rsk_reserve_take(&in->todo, &in->by, need, RETRIES, BREAK_NS);
		break;
	case GIVE:
		rsk_reserve_give(&in->todo, &in->by, need, RETRIES, BREAK_NS);
		break;
	default:
		rsk_reserve_join(&in->todo, &in->by, RETRIES, BREAK_NS);
		in->todo.op = (struct rsk_locked){ .by = &in->by,
						   .kind = RSK_LOCKED_ADD,
						   .retries = RETRIES,
						   .at = RSK_LOCKED_FREE,
						   .words = { 1 } };
	}
}

static void end_turn(struct initiator *in, int rc, bool last)
{
	bool refused = in->turn == TAKE && rc == -ENOSPC;

	if (rc < 0 && !refused)
		PAIR_FAIL("initiator %u, turn %u: %s", in->by.me, in->turn, strerror(-rc));
	in->refused += refused;
	in->taken += in->turn == TAKE && !refused;
	in->adds += in->turn == ADD;
	in->turn = refused || in->turn == GIVE ? TAKE : in->turn + 1;
	in->ended = last && in->turn == TAKE;
	if (!in->ended)
		begin_turn(in);
}

static void step(struct initiator *in, int rc, bool last)
{
	struct rsk_locked *op;

	in->busy += rc == -EBUSY;
	rc = rsk_reserve_next(&in->todo, rc, rsk_monotonic_ns(), &op);
	while (rc <= 0) {
		end_turn(in, rc, last);
		if (in->ended)
			return;
		rc = rsk_reserve_next(&in->todo, -EAGAIN, rsk_monotonic_ns(), &op);
	}
	rc = in->mech->locked(in->rail, op, in->by.me - 1);
	if (rc < 0 && rc != -EAGAIN)
		PAIR_FAIL("locked: %s", strerror(-rc));
	in->under_way = rc == 0;
}

static void take_completions(struct pair *p, bool last)
{
	struct rsk_completion done[4];

	for (uint32_t l = 0; l < PAIR_LINKS; l++) {
		struct rsk_rail *rail = &p->link[l].seg.rail;
		int n = rail->ops->poll(rail, done, 4);

		if (n < 0)
			PAIR_FAIL("poll: %s", strerror(-n));
		for (int i = 0; i < n; i++) {
			struct initiator *in = &all[done[i].token];

			in->under_way = false;
			step(in, done[i].status, last);
		}
	}
}

#define EXPECT(what, value)                                                                        \
	do {                                                                                       \
		int expect_rc = (what);                                                            \
		if (expect_rc != (value))                                                          \
			PAIR_FAIL(#what ": %d", expect_rc);                                        \
	} while (0)

static void reserve_all(struct pair *p)
{
	uint64_t end = rsk_monotonic_ns() + p->plan.seconds * 1000000000ull;
	uint64_t until = end + PATIENCE_NS;
	bool going = true;

	for (uint32_t l = 0; l < PAIR_LINKS; l++)
		EXPECT(p->mech->reg_locked(p->link[l].rail), 0);
	for (uint32_t i = 0; i < INITIATORS; i++) {
		all[i].mech = p->mech;
		all[i].rail = &p->link[i % PAIR_LINKS].seg.rail;
		rsk_locker_init(&all[i].by, rsk_seg_ring_off(&p->link[0].seg.peer, 0) + OFF,
				HOLDERS, i + 1, rsk_monotonic_ns());
		begin_turn(&all[i]);
	}
	while (going) {
		bool last = rsk_monotonic_ns() > end;

		going = false;
		/* A rail carries a limited number of them at once; the others follow in turn. */
		for (uint32_t i = 0; i < INITIATORS; i++) {
			if (!all[i].under_way && !all[i].ended)
				step(&all[i], -EAGAIN, last);
			going |= !all[i].ended;
		}
		take_completions(p, last);
		pair_keep(p, 0);
		if (rsk_monotonic_ns() > until)
			PAIR_FAIL("it does not end");
	}
}

/* Runs one locked access to its end; no other is under way. */
static int alone(struct initiator *in, struct rsk_locked op)
{
	uint64_t until = rsk_monotonic_ns() + PATIENCE_NS;
	struct rsk_completion done;
	int n;

	op.by = &in->by;
	n = in->mech->locked(in->rail, &op, 0);
	if (n < 0)
		return n;
	while ((n = in->rail->ops->poll(in->rail, &done, 1)) == 0)
		if (rsk_monotonic_ns() > until)
			PAIR_FAIL("no completion of a locked access");
	return n < 0 ? n : done.status;
}

static void refusals(void)
{
	struct initiator *a = &all[0], *b = &all[1];
	const struct rsk_locked lock = { .kind = RSK_LOCKED_LOCK, .retries = RETRIES },
				unlock = { .kind = RSK_LOCKED_UNLOCK },
				read = { .kind = RSK_LOCKED_READ, .retries = RETRIES },
				add = { .kind = RSK_LOCKED_ADD,
					.at = RSK_LOCKED_FREE,
					.words = { 1000 },
					.retries = 2 };
	struct rsk_locked_view was;
	struct rsk_locked *op;
	int rc = -EAGAIN;

	EXPECT(alone(a, lock), 0);
	was = a->by.view;
	EXPECT(alone(b, add), -EBUSY);
	EXPECT(alone(b, unlock), -ESTALE);
	EXPECT(alone(b, read), -EBUSY);
	if (b->by.view.word != was.word || memcmp(&b->by.view.now, &was.now, sizeof(was.now)))
		PAIR_FAIL("a refused access changed something");
	rsk_reserve_take(&b->todo, &b->by, need, RETRIES, BREAK_NS);
	while ((rc = rsk_reserve_next(&b->todo, rc, rsk_monotonic_ns(), &op)) == 1)
		rc = alone(b, *op);
	if (rc || b->todo.broken != 1)
		PAIR_FAIL("broken: %d, %u", rc, b->todo.broken);
	EXPECT(alone(a, unlock), -ESTALE);
	EXPECT(alone(a, read), 0);
	if (a->by.view.now.shared[RSK_RESERVE_SESSIONS] != 1)
		PAIR_FAIL("after it was broken, at version %llu (%llu, %llu): %llu sessions",
			  (unsigned long long)rsk_locked_version(a->by.view.word),
			  (unsigned long long)rsk_locked_version(was.word),
			  (unsigned long long)rsk_locked_version(b->by.view.word),
			  (unsigned long long)a->by.view.now.shared[RSK_RESERVE_SESSIONS]);
	rsk_reserve_give(&b->todo, &b->by, need, RETRIES, BREAK_NS);
	EXPECT(alone(b, b->todo.op), 0);
}

static void initiate(struct pair *p)
{
	uint64_t adds = 0, taken = 0, refused = 0, busy = 0;
	const struct rsk_locked read = { .kind = RSK_LOCKED_READ, .retries = RETRIES };
	const struct rsk_locked_slot *now = &all[0].by.view.now;

	reserve_all(p);
	for (uint32_t i = 0; i < INITIATORS; i++) {
		adds += all[i].adds;
		taken += all[i].taken;
		refused += all[i].refused;
		busy += all[i].busy;
	}
	refusals();
	EXPECT(alone(&all[0], read), 0);
	if (now->shared[RSK_LOCKED_FREE] != adds)
		PAIR_FAIL("%llu of %llu additions",
			  (unsigned long long)now->shared[RSK_LOCKED_FREE],
			  (unsigned long long)adds);
	for (uint32_t i = 0; i < RSK_RESERVE_MEASURES; i++)
		if (now->shared[i])
			PAIR_FAIL("measure %u: %llu are left", i,
				  (unsigned long long)now->shared[i]);
	printf("{\"adds\": %llu, \"taken\": %llu, \"refused\": %llu, \"busy\": %llu, "
	       "\"atomics\": %llu}\n",
	       (unsigned long long)adds, (unsigned long long)taken, (unsigned long long)refused,
	       (unsigned long long)busy, (unsigned long long)p->mech->atomics());
}

/* Maps the same memory as the first ring of both links; it holds the record. */
static uint8_t *share_rings(struct pair *p)
{
	uint8_t *at = NULL;
	int fd = memfd_create("record", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, PAIR_RING))
		PAIR_FAIL("memfd: %s", strerror(errno));
	for (uint32_t l = 0; l < PAIR_LINKS; l++) {
		struct rsk_seg *seg = &p->link[l].seg;

		at = seg->rail.segment + rsk_seg_ring_off(&seg->own, 0);
		if (mmap(at, PAIR_RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
		    at)
			PAIR_FAIL("mmap: %s", strerror(errno));
	}
	close(fd);
	rsk_locked_init(at + OFF, HOLDERS, limit);
	return at + OFF;
}

void pair_locked(struct pair *p, const struct rsk_verbs_addr *from)
{
	uint8_t *record = p->server ? share_rings(p) : NULL;
	struct rsk_locked_view v;

	if (!p->mech)
		PAIR_FAIL("RSOCK_VERBS is not librsock-verbs-mech.so");
	for (uint32_t i = 0; i < PAIR_LINKS; i++)
		pair_bring_up(&p->link[i], from);
	if (!p->server)
		initiate(p);
	pair_rendezvous(p, 'e');
	if (p->server) {
		EXPECT(rsk_locked_validate(record, HOLDERS, &v), 0);
		printf("{\"versions\": %llu, \"atomics\": %llu}\n",
		       (unsigned long long)rsk_locked_version(v.word),
		       (unsigned long long)p->mech->atomics());
	}
	pair_rendezvous(p, 'w');
}
