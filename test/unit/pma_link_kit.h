/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_link_kit.h - the machine of a local policy agent's link to the central agent, driven by the
 * test.
 */
#ifndef PMA_LINK_KIT_H
#define PMA_LINK_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pma_ask.h"

#define MS 1000000ull

static const struct rsk_ask_config pma_link_config = { .timeout_ns = 100 * MS,
						       .report_ns = 50 * MS,
						       .max_questions = 4,
						       .max_idle = 3,
						       .boot = 7 };

/* What the asker was told last. */
struct asker {
	struct rsk_ask *a;
	uint64_t local; /* not 0: a lease is bound to it */
	uint64_t id;
	int told;
	enum rsk_pma_verdict verdict;
};

static inline void on_said(void *user, uint64_t id, const struct rsk_ask_answer *answer)
{
	struct asker *w = user;

	w->told++;
	w->id = id;
	w->verdict = answer->verdict;
	if (answer->verdict == RSK_PMA_MAP && w->local)
		rsk_ask_bind(w->a, id, w->local);
}

static inline struct rsk_ask_key key_of(uint16_t port)
{
	struct rsk_ask_key k = {
		.uid = RSK_PMA_NOBODY, .ap_port = port, .ipv = 4, .side = RSK_PMA_AP
	};

	k.cp_ip[0] = k.ap_ip[0] = 10;
	k.cp_ip[3] = 1;
	k.ap_ip[3] = 2;
	return k;
}

static struct rsk_ask_item items[RSK_ASK_IDS];
static size_t n_items;
static bool resume, last;

static inline enum rsk_ask_kind next(struct rsk_ask *a, uint64_t now)
{
	enum rsk_ask_kind kind = rsk_ask_next_message(a, now, items, &n_items, &resume, &last);

	cr_assert(rsk_ask_validate(a));
	return kind;
}

#endif
