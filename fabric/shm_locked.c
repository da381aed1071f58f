// SPDX-License-Identifier: BSD-2-Clause
/*
 * shm_locked.c - locked access (locked.h) to a record in memory of this host, executed by the
 * initiator itself. The port table uses it.
 */
#include <errno.h>
#include <string.h>

#include "locked.h"

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * Writes the content to an own slot, which is not read until the lock word names it. The word named
 * it until this holder's last commit: the fence orders the store of that commit before the stores
 * here, so that whoever reads some of these finds another word afterwards (load() in locked.c). An
 * acquire and release alone does not: it keeps no later store behind its own.
 */
static void stage(void *record, const struct rsk_locked_next *next)
{
	uint64_t *to = (uint64_t *)record +
		       (RSK_LOCKED_HEAD_BYTES + next->slot * sizeof(next->content)) / 8;
	uint64_t words[sizeof(next->content) / sizeof(uint64_t)];

	memcpy(words, &next->content, sizeof(words));
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		__atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
}

int rsk_locked_commit(void *record, struct rsk_locked *op, const struct rsk_locked_next *next)
{
	uint64_t expected = next->from;

	if (next->staged)
		stage(record, next);
	if (!__atomic_compare_exchange_n((uint64_t *)record, &expected, next->to, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		op->by->view.word = expected;
		op->by->known = false;
		return -EAGAIN;
	}
	rsk_locked_took(op, next);
	return 0;
}

/* One try. Returns 0: done; -EAGAIN: the record was changed meanwhile; other -errno. */
static int once(void *record, struct rsk_locked *op)
{
	struct rsk_locked_view *v = &op->by->view;
	struct rsk_locked_next next = { .staged = false };
	int rc = rsk_locked_load(record, op, v);

	op->by->known = rc == 0;
	if (rc == 0)
		rc = rsk_locked_plan(op, v, &next);
	return rc <= 0 ? rc : rsk_locked_commit(record, op, &next);
}

int rsk_locked_run(void *record, struct rsk_locked *op)
{
	for (;;) {
		int rc = once(record, op);

		op->tries++;
		if (rc != -EAGAIN && rc != -EBUSY)
			return rc;
		if (op->tries > op->retries)
			return -EBUSY;
		pause_cpu();
	}
}

int rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op)
{
	int rc = rsk_locked_begin(op, rail->window_bytes);

	if (rc == 0)
		rc = rsk_locked_run(rail->window + op->by->off, op);
	return rc < 0 ? rc : 1;
}
