// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_mailbox_threads.c - tests a mailbox over shared memory as two processes have it, each with
 * its own mapping: an owner that never pauses, and readers that never accept what it had not
 * finished yet.
 */
#include <pthread.h>
#include <unistd.h>

#include "mailbox_kit.h"
#include "shm.h"

#define READERS 3u
#define WHOLE 20000u /* messages that each reader accepts */
#define BYTES RSK_MAILBOX_BYTES

static struct rsk_seg here, there;
static struct rsk_key key;
static uint64_t box_off;
static _Atomic(uint32_t) reading;

static void both(void)
{
	int fd = rsk_shm_create(&there, 65536);

	cr_assert_geq(fd, 0);
	close(rsk_shm_create(&here, 65536));
	cr_assert_eq(rsk_shm_attach(&here, fd, &there.own), 0);
	close(fd);
	cr_assert_eq(rsk_seg_reach(&there, 0), -EINVAL, "no window");
	box_off = rsk_seg_ctl_off(8); /* in place of whole control blocks */
	rsk_key_init(&key, KEY);
	atomic_store(&reading, READERS);
}

struct count {
	uint64_t wrong, back, gets, torn, old, empty, given_up;
	int rc;
};

static void *reads(void *arg)
{
	struct rsk_mailbox_reader r;
	struct rsk_mailbox_view view = { .len = 0 };
	struct count *c = arg;
	uint64_t last = 0;

	rsk_mailbox_reader_init(&r, &here.rail, box_off, BYTES, &key, 1);
	while (r.whole < WHOLE && !c->rc) {
		int rc = rsk_mailbox_start(&r);

		if (rc == 0)
			rc = rsk_mailbox_take(&r, &view);
		if (rc == 1) {
			c->wrong += !is_what_was_said(1, RSK_MAILBOX_MESSAGE, &view);
			c->back += view.sequence <= last;
			last = view.sequence;
		} else if (rc == -EBADMSG) {
			c->given_up++;
		} else if (rc != -EAGAIN) {
			c->rc = rc ? rc : -EBUSY;
		}
	}
	c->gets = r.gets;
	c->torn = r.torn;
	c->old = r.old;
	c->empty = r.empty;
	atomic_fetch_sub(&reading, 1);
	return NULL;
}

static void *writes(void *arg)
{
	struct rsk_mailbox *box = arg;

	while (atomic_load(&reading))
		say_next(box, 1);
	return NULL;
}

Test(mailbox_threads, an_owner_that_never_quiesces, .timeout = 110)
{
	struct count count[READERS] = { { 0 } };
	pthread_t writer, reader[READERS];
	uint64_t gets = 0, torn = 0, old = 0, empty = 0;
	struct rsk_mailbox box;

	both();
	rsk_mailbox_init(&box, there.rail.segment + box_off, BYTES, &key);
	cr_assert_eq(pthread_create(&writer, NULL, writes, &box), 0);
	for (uint32_t i = 0; i < READERS; i++)
		cr_assert_eq(pthread_create(&reader[i], NULL, reads, &count[i]), 0);
	for (uint32_t i = 0; i < READERS; i++)
		pthread_join(reader[i], NULL);
	pthread_join(writer, NULL);
	for (uint32_t i = 0; i < READERS; i++) {
		cr_assert_eq(count[i].rc, 0);
		cr_assert_eq(count[i].wrong, 0, "reader %u believed what was never published", i);
		cr_assert_eq(count[i].back, 0, "reader %u went back", i);
		gets += count[i].gets;
		torn += count[i].torn;
		old += count[i].old;
		empty += count[i].empty;
	}
	printf("%llu published; %llu gets, %llu torn, %llu old\n", (unsigned long long)box.sequence,
	       (unsigned long long)gets, (unsigned long long)torn, (unsigned long long)old);
	cr_assert_eq(gets,
		     /* empty: before the first was published */
		     torn + old + empty + READERS * WHOLE);
	cr_assert_gt(torn, 0, "never torn: the test has not tried it");
	rsk_seg_detach(&here);
	rsk_seg_detach(&there);
}
