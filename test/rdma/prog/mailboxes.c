// SPDX-License-Identifier: BSD-2-Clause
/*
 * mailboxes.c - mode mailboxes of verbs_pair (pair.c). Each end owns two mailboxes for each stream,
 * one at the start of the stream's ring and one in its control block. One thread publishes in them
 * all the time; the other end obtains the messages by RDMA READ. A message that the reader accepts
 * must be the one that was published with that sequence; a command must be executed once, when it
 * is due.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include <rsock/splitmix.h>

#include "mailbox_command.h"
#include "pair.h"

#define IN_RING RSK_MAILBOX_BYTES
#define IN_CTL 56u /* behind `consumed` */
#define ORDER 16u  /* so many publications of each command; the later ones make it due */
#define BOXES (2 * PAIR_MAX_STREAMS)

_Static_assert(sizeof(struct rsk_seg_ctl) - offsetof(struct rsk_seg_ctl, credit) == IN_CTL,
	       "place");

struct boxes {
	struct pair_link *l;
	uint32_t count;
	struct rsk_mailbox box[BOXES];
	struct rsk_mailbox_reader reader[BOXES], *all[BOXES];
	struct rsk_mailbox_pending pending[BOXES];
	uint32_t executed[BOXES]; /* number of the last command */
	uint64_t commands;
};

struct order {
	struct rsk_mailbox_command c;
	uint64_t sequence;
};
_Static_assert(RSK_MAILBOX_FRAME_BYTES + sizeof(struct order) <= IN_CTL, "a command goes in");

/* Makes message @sequence of mailbox @i in a ring; returns its length. */
static uint32_t message(uint32_t i, uint64_t sequence, uint64_t *words)
{
	uint32_t n = (uint32_t)(rsk_splitmix_mix(sequence) % (RSK_MAILBOX_MESSAGE / 8)) + 1;

	for (uint32_t k = 0; k < n; k++)
		words[k] = rsk_splitmix_mix(sequence << 16 ^ k << 8 ^ i);
	return n * 8;
}

/*
 * Makes message @sequence of a mailbox in a control block: a command that is due when its sequence
 * exceeds the middle of its ORDER publications.
 */
static struct order order(uint64_t sequence)
{
	uint32_t number = (uint32_t)(sequence / ORDER) + 1;

	return (struct order){ .c = { .number = number,
				      .what = number ^ 0x80000000u,
				      .when = RSK_MAILBOX_EXCEEDS,
				      .value = (number - 1) * (uint64_t)ORDER + ORDER / 2 },
			       .sequence = sequence };
}

static bool in_ring(uint32_t i)
{
	return i % 2 == 0;
}

static uint64_t offset(const struct rsk_seg_geometry *g, uint32_t i)
{
	return in_ring(i) ? rsk_seg_ring_off(g, i / 2) :
			    rsk_seg_ctl_off(i / 2) + offsetof(struct rsk_seg_ctl, credit);
}

static void publish(struct boxes *b, uint32_t i)
{
	uint64_t words[RSK_MAILBOX_MESSAGE / 8], next = b->box[i].sequence + 1;
	struct order o = order(next);
	int rc;

	if (in_ring(i))
		rc = rsk_mailbox_publish(&b->box[i], RSK_MAILBOX_DATA, words,
					 message(i, next, words));
	else
		rc = rsk_mailbox_publish(&b->box[i], RSK_MAILBOX_DATA, &o, sizeof(o));
	if (rc)
		PAIR_FAIL("publish: %d", rc);
}

static void *owner(void *arg)
{
	struct boxes *b = arg;

	while (!atomic_load_explicit(&b->l->p->stop, memory_order_relaxed))
		for (uint32_t i = 0; i < b->count; i++)
			publish(b, i);
	return NULL;
}

static void command(struct boxes *b, uint32_t i, const struct rsk_mailbox_view *view)
{
	struct order is, should = order(view->sequence);
	int rc = rsk_mailbox_command_accept(&b->pending[i], view);
	uint32_t what;

	memcpy(&is, view->message, sizeof(is) < view->len ? sizeof(is) : view->len);
	if (view->len != sizeof(is) || memcmp(&is, &should, sizeof(is)) != 0 ||
	    (rc && rc != -EALREADY) || (rc != 0) != (should.c.number <= b->executed[i]))
		PAIR_FAIL("a command that nobody gave: %d", rc);
	what = rsk_mailbox_command_due(&b->pending[i], 0);
	if ((what != 0) != (rc == 0 && is.sequence > should.c.value) ||
	    (what && what != should.c.what))
		PAIR_FAIL("command %u is due: %x", should.c.number, what);
	if (!what)
		return;
	b->executed[i] = should.c.number;
	b->commands++;
}

static void believe(struct boxes *b, uint32_t i, const struct rsk_mailbox_view *view)
{
	uint64_t words[RSK_MAILBOX_MESSAGE / 8];

	if (!in_ring(i))
		command(b, i, view);
	else if (view->kind != RSK_MAILBOX_DATA || view->len != message(i, view->sequence, words) ||
		 memcmp(view->message, words, view->len) != 0)
		PAIR_FAIL("mailbox %u: message %llu was never published", i,
			  (unsigned long long)view->sequence);
}

static void read_all(struct boxes *b, uint64_t until_ns)
{
	struct rsk_rail *rail = &b->l->seg.rail;
	struct rsk_mailbox_view view = { .len = 0 };
	uint32_t busy = 1;

	/* Goes on until no READ is under way: a late one would arrive where the next ones read. */
	while (busy || rsk_monotonic_ns() < until_ns) {
		int got;

		for (uint32_t i = 0; i < b->count && rsk_monotonic_ns() < until_ns; i++) {
			int rc = b->reader[i].state == RSK_MAILBOX_IDLE ?
					 rsk_mailbox_start(&b->reader[i]) :
					 0;

			if (rc && rc != -EAGAIN)
				PAIR_FAIL("start: %s", strerror(-rc));
		}
		got = rsk_mailbox_poll(rail, b->all, b->count);
		if (got < 0)
			PAIR_FAIL("the rail broke: %s", strerror(-got));
		if (!got)
			sched_yield(); /* for the owner's thread, where there is one processor */
		busy = 0;
		for (uint32_t i = 0; i < b->count; i++) {
			int rc = b->reader[i].state == RSK_MAILBOX_IDLE ?
					 -EAGAIN :
					 rsk_mailbox_take(&b->reader[i], &view);

			if (rc == 1)
				believe(b, i, &view);
			else if (rc < 0 && rc != -EAGAIN && rc != -EBADMSG)
				PAIR_FAIL("take: %s", strerror(-rc));
			busy += b->reader[i].state != RSK_MAILBOX_IDLE;
		}
		pair_keep(b->l->p, 0);
	}
}

static void boxes_report(const struct boxes *b)
{
	uint64_t published = 0, gets = 0, empty = 0, torn = 0, old = 0, whole = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		published += b->box[i].sequence;
		gets += b->reader[i].gets;
		empty += b->reader[i].empty;
		torn += b->reader[i].torn;
		old += b->reader[i].old;
		whole += b->reader[i].whole;
	}
	printf("{\"published\": %llu, \"gets\": %llu, \"empty\": %llu, \"torn\": %llu, "
	       "\"old\": %llu, \"whole\": %llu, \"commands\": %llu}\n",
	       (unsigned long long)published, (unsigned long long)gets, (unsigned long long)empty,
	       (unsigned long long)torn, (unsigned long long)old, (unsigned long long)whole,
	       (unsigned long long)b->commands);
}

void pair_mailboxes(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct pair_link *l = &p->link[0];
	static struct boxes b;
	struct rsk_key key;
	pthread_t thread;

	b.l = l;
	b.count = 2 * p->plan.streams;
	rsk_key_init(&key, 0x6d61696c);
	for (uint32_t i = 0; i < b.count; i++) {
		uint32_t bytes = in_ring(i) ? IN_RING : IN_CTL;

		rsk_mailbox_init(&b.box[i], l->seg.rail.segment + offset(&l->seg.own, i), bytes,
				 &key);
		rsk_mailbox_reader_init(&b.reader[i], &l->seg.rail, offset(&l->seg.peer, i), bytes,
					&key, i);
		b.all[i] = &b.reader[i];
	}
	pair_bring_up(l, from);
	/* A mailbox in which nothing was published reads as empty. */
	read_all(&b, rsk_monotonic_ns() + 100000000u);
	pair_rendezvous(p, 'm');
	if (pthread_create(&thread, NULL, owner, &b))
		PAIR_FAIL("thread");
	read_all(&b, rsk_monotonic_ns() + p->plan.seconds * 1000000000ull);
	pair_rendezvous(p, 'e');
	atomic_store(&p->stop, true);
	pthread_join(thread, NULL);
	boxes_report(&b);
}
