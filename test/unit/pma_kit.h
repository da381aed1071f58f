/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_kit.h - for tests of the policy agent: an agent made from a configuration text, and questions
 * to it.
 */
#ifndef PMA_KIT_H
#define PMA_KIT_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "conf.h"
#include "pma.h"

/* A period after which nothing of what was measured before is left in an average. */
#define PMA_LONG_NS (1000 * RSK_PMA_CARRIED_TIME_NS)

static inline struct rsk_conf *pma_conf(const char *text)
{
	struct rsk_conf *c = NULL;
	char error[512];
	int rc = rsk_conf_parse(text, strlen(text), &c, error, sizeof(error));

	cr_assert_eq(rc, 0, "%s", error);
	return c;
}

static inline struct rsk_pma *pma_of(const char *text)
{
	struct rsk_pma *a = rsk_pma_new(pma_conf(text));

	cr_assert_not_null(a);
	cr_assert(rsk_pma_validate(a));
	return a;
}

static inline struct rsk_pma_question pma_question(enum rsk_pma_side side, const char *cp,
						   const char *ap, uint16_t port)
{
	struct rsk_pma_question q = {
		.side = side, .ipv = 4, .ap_port = port, .uid = RSK_PMA_NOBODY
	};

	cr_assert_eq(inet_pton(AF_INET, cp, q.cp_ip), 1);
	cr_assert_eq(inet_pton(AF_INET, ap, q.ap_ip), 1);
	return q;
}

static inline struct rsk_pma_answer pma_ask(struct rsk_pma *a, const struct rsk_pma_question *q)
{
	struct rsk_pma_answer out;

	rsk_pma_decide(a, q, &out);
	cr_assert_eq(out.verdict == RSK_PMA_MAP, out.reservation != 0);
	return out;
}

/* Asks for the AP's side, as a PMSP does. */
static inline struct rsk_pma_answer pma_ask_ap(struct rsk_pma *a, const char *cp, const char *ap,
					       uint16_t port)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, cp, ap, port);

	return pma_ask(a, &q);
}

static inline struct rsk_pma_answer pma_ask_cp(struct rsk_pma *a, const char *cp, const char *ap,
					       uint16_t port)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, cp, ap, port);

	return pma_ask(a, &q);
}

static inline const char *pma_ip(const struct rsk_pma_answer *out)
{
	static char text[INET_ADDRSTRLEN];

	return inet_ntop(AF_INET, out->ip, text, sizeof(text));
}

#define pma_is_on(out, name)                                                                       \
	do {                                                                                       \
		const struct rsk_pma_answer is_on_ = (out);                                        \
                                                                                                   \
		cr_assert_eq(is_on_.verdict, RSK_PMA_MAP, "verdict %d", is_on_.verdict);           \
		cr_assert_str_eq(is_on_.device, name);                                             \
	} while (0)

static inline struct rsk_pma_device_view pma_view(struct rsk_pma *a, const char *name)
{
	struct rsk_pma_device_view v[8];
	size_t n = rsk_pma_devices(a, v, 8);

	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].name, name) == 0)
			return v[i];
	cr_assert(false, "%s", name);
	return v[0];
}

/* ---- answers as text ---- */

static char pma_said[8192];

static inline void pma_hear(void *ctx, const char *line)
{
	size_t n = strlen(pma_said);

	snprintf(pma_said + n, sizeof(pma_said) - n, "%s\n", line);
}

static inline struct rsk_pma_answer pma_explain(struct rsk_pma *a, const struct rsk_pma_question *q)
{
	struct rsk_pma_answer out;

	*pma_said = 0;
	rsk_pma_explain(a, q, &out, pma_hear, NULL);
	cr_assert_eq(out.reservation, 0);
	return out;
}

#define pma_says(text) cr_assert(strstr(pma_said, text), "not said: %s\n%s", text, pma_said)

/* ---- events ---- */

/* A line for each event since the last pma_is_heard(). */
static char pma_heard[1024];

static inline void pma_hear_event(void *ctx, enum rsk_pma_event event, const char *name)
{
	static const char *const names[RSK_PMA_EVENTS] = {
		[RSK_PMA_DEVICE_UP] = "up",
		[RSK_PMA_DEVICE_DOWN] = "down",
		[RSK_PMA_DEVICE_DRAINING] = "draining",
		[RSK_PMA_DEVICE_OVERLOAD] = "over",
		[RSK_PMA_DEVICE_RELIEF] = "relief",
		[RSK_PMA_NODE_OVERLOAD] = "over",
		[RSK_PMA_NODE_RELIEF] = "relief",
		[RSK_PMA_SERVICE_BELOW] = "below",
		[RSK_PMA_SERVICE_RELIEF] = "enough",
	};
	size_t n = strlen(pma_heard);

	snprintf(pma_heard + n, sizeof(pma_heard) - n, "%s %s\n", name ? name : "node",
		 names[event]);
}

#define pma_is_heard(text)                                                                         \
	do {                                                                                       \
		cr_assert_str_eq(pma_heard, text);                                                 \
		*pma_heard = 0;                                                                    \
	} while (0)

#endif
