// SPDX-License-Identifier: BSD-2-Clause
/* conf_when.c - converts conditions from text to struct rsk_cond. Called by conf_rules.c. */
#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>

#include "conf_build.h"
#include "conf_value.h"

/*
 * Conditions come from keys, one each, or from list entries, one each: returns the array size for
 * all of them.
 */
size_t rsk_conf_count_when(const struct rsk_raw_when *w)
{
	size_t n = 24; /* at most one for each key, and one for the whole */

	if (!w)
		return 1;
	for (unsigned int i = 0; i < w->n_any; i++)
		n += rsk_conf_count_when(&w->any[i]);
	for (unsigned int i = 0; i < w->n_all; i++)
		n += rsk_conf_count_when(&w->all[i]);
	return n + w->functions.n + (w->not_ ? rsk_conf_count_when(w->not_) : 0);
}

static struct rsk_cond *begin(struct rsk_conf_build *b, enum rsk_cond_op op)
{
	struct rsk_cond *cond = &b->c->conds[b->c->n_conds++];

	cond->op = op;
	cond->end = b->c->n_conds;
	return cond;
}

static void end(struct rsk_conf_build *b, struct rsk_cond *cond)
{
	cond->end = b->c->n_conds;
}

static int take_part(struct rsk_conf_build *b, const char *where, const char *key, const char *text,
		     enum rsk_cond_op op)
{
	if (!text)
		return 0;
	if (rsk_conf_part(text, &begin(b, op)->part) < 0)
		return rsk_conf_wrong(b, where, "%s: \"%s\" is not a part, such as 0.8 or 80%%",
				      key, text);
	return 0;
}

int rsk_conf_user(const char *name, uint32_t *uid)
{
	struct passwd pw, *found = NULL;
	char buf[4096];
	uint64_t v;

	if (rsk_conf_number(name, &v) == 0) {
		*uid = (uint32_t)v;
		return v < UINT32_MAX ? 0 : -EINVAL;
	}
	if (getpwnam_r(name, &pw, buf, sizeof(buf), &found) != 0 || !found)
		return -EINVAL;
	*uid = pw.pw_uid;
	return 0;
}

static int take_numbers(struct rsk_conf_build *b, const char *where,
			const struct rsk_raw_list *list, enum rsk_cond_op op)
{
	struct rsk_cond *cond;

	if (!list->n)
		return 0;
	cond = begin(b, op);
	cond->numbers = rsk_conf_alloc(b->c, list->n, sizeof(uint32_t));
	if (!cond->numbers)
		return -ENOMEM;
	for (; cond->n < list->n; cond->n++) {
		const char *text = list->v[cond->n];
		uint32_t *to = &cond->numbers[cond->n];

		if (op == RSK_COND_USERS) {
			if (rsk_conf_user(text, to) < 0)
				return rsk_conf_wrong(b, where, "users: there is no user \"%s\"",
						      text);
			continue;
		}
		*to = rsk_conf_find(b->c, RSK_CONF_SERVICES, text);
		if (*to == RSK_CONF_NONE)
			return rsk_conf_wrong(b, where, "services: there is no service \"%s\"",
					      text);
	}
	return 0;
}

static int take_times(struct rsk_conf_build *b, const char *where, const struct rsk_raw_list *list)
{
	struct rsk_cond *cond = begin(b, RSK_COND_TIME);

	cond->week = rsk_conf_alloc(b->c, RSK_CONF_WEEK_BYTES, 1);
	if (!cond->week)
		return -ENOMEM;
	for (unsigned int i = 0; i < list->n; i++)
		if (rsk_conf_week(list->v[i], cond->week) < 0)
			return rsk_conf_wrong(b, where,
					      "time: \"%s\" is not days (mon-fri), hours "
					      "(08:00-18:00), or both with a space between them",
					      list->v[i]);
	return 0;
}

static int take_lists(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w)
{
	struct rsk_cond *cond;
	int rc = take_numbers(b, where, &w->services, RSK_COND_SERVICES);

	if (rc == 0)
		rc = take_numbers(b, where, &w->users, RSK_COND_USERS);
	if (rc == 0 && w->ports.n) {
		cond = begin(b, RSK_COND_PORTS);
		rc = rsk_conf_take_ranges(b, where, "ports", &w->ports, &cond->ranges, &cond->n);
	}
	if (rc == 0 && w->peers.n) {
		cond = begin(b, RSK_COND_PEERS);
		rc = rsk_conf_take_prefixes(b, where, "peers", &w->peers, &cond->prefixes,
					    &cond->n);
	}
	if (rc == 0 && w->local.n) {
		cond = begin(b, RSK_COND_LOCAL);
		rc = rsk_conf_take_prefixes(b, where, "local", &w->local, &cond->prefixes,
					    &cond->n);
	}
	return rc < 0 || !w->time.n ? rc : take_times(b, where, &w->time);
}

/* Bounds of measured values: one key is one condition. */
static const struct {
	const char *key;
	size_t from;
	enum rsk_cond_op op;
	enum rsk_conf_kind kind;
	uint64_t most;
} bounds[] = {
#define BOUND(key, field, op, kind, most)                                                          \
	{                                                                                          \
		key, offsetof(struct rsk_raw_when, field), RSK_COND_##op, RSK_CONF_##kind, most    \
	}
	BOUND("sessions-below", sessions_below, SESSIONS, U64, UINT32_MAX),
	BOUND("device-sessions-below", device_sessions_below, DEVICE_SESSIONS, U64, UINT32_MAX),
	BOUND("bandwidth-free", bandwidth_free, BANDWIDTH_FREE, RATE, RSK_CONF_RATE_MOST),
	BOUND("transactions-per-second-below", transactions_below, TRANSACTIONS_BELOW, U64,
	      UINT32_MAX),
	BOUND("transactions-per-second-at-least", transactions_least, TRANSACTIONS_LEAST, U64,
	      UINT32_MAX),
	BOUND("rtt-below", rtt_below, RTT_BELOW, TIME, 3600000000000),
	BOUND("rtt-at-least", rtt_least, RTT_LEAST, TIME, 3600000000000),
	BOUND("stream-bytes-below", stream_bytes_below, STREAM_BYTES_BELOW, U64, 1ull << 53),
	BOUND("stream-bytes-at-least", stream_bytes_least, STREAM_BYTES_LEAST, U64, 1ull << 53),
#undef BOUND
};

static int take_bounds(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w)
{
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const char *text = *(char *const *)(const void *)((const char *)w + bounds[i].from);
		int rc;

		if (!text)
			continue;
		rc = rsk_conf_take(b, where, bounds[i].key, text, bounds[i].kind, 1, bounds[i].most,
				   &begin(b, bounds[i].op)->number);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int take_measures(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w)
{
	struct rsk_cond *not_ = NULL;
	int rc = take_part(b, where, "load-below", w->load_below, RSK_COND_LOAD);

	if (rc == 0)
		rc = take_part(b, where, "device-load-below", w->device_load_below,
			       RSK_COND_DEVICE_LOAD);
	if (rc == 0)
		rc = take_bounds(b, where, w);
	if (rc == 0 && w->bandwidth_fits) {
		if (w->bandwidth_fits == RSK_RAW_NO)
			not_ = begin(b, RSK_COND_NOT);
		begin(b, RSK_COND_BANDWIDTH_FITS);
		if (not_)
			end(b, not_);
	}
	return rc;
}

static int take_each(struct rsk_conf_build *b, const char *where, const char *key,
		     enum rsk_cond_op op, const struct rsk_raw_when *v, unsigned int n)
{
	struct rsk_cond *cond;
	char at[RSK_CONF_WHERE];
	int rc = 0;

	if (!n)
		return 0;
	cond = begin(b, op);
	for (unsigned int i = 0; rc == 0 && i < n; i++) {
		if (snprintf(at, sizeof(at), "%s.%s[%u]", where, key, i) >= (int)sizeof(at))
			at[sizeof(at) - 1] = 0; /* truncated: the place is still near enough */
		rc = rsk_conf_take_when(b, at, &v[i]);
	}
	end(b, cond);
	return rc;
}

static int take_functions(struct rsk_conf_build *b, const char *where,
			  const struct rsk_raw_list *list)
{
	for (unsigned int i = 0; i < list->n; i++) {
		struct rsk_cond *cond = begin(b, RSK_COND_FUNCTION);

		cond->function = rsk_conf_find(b->c, RSK_CONF_FUNCTIONS, list->v[i]);
		if (cond->function == RSK_CONF_NONE)
			return rsk_conf_wrong(b, where,
					      "functions: there is no function or rule \"%s\"",
					      list->v[i]);
	}
	return 0;
}

/* All keys of a mapping must hold. */
int rsk_conf_take_when(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w)
{
	struct rsk_cond *all = begin(b, RSK_COND_ALL);
	int rc = 0;

	if (w) {
		rc = take_lists(b, where, w);
		if (rc == 0)
			rc = take_measures(b, where, w);
		if (rc == 0)
			rc = take_functions(b, where, &w->functions);
		if (rc == 0)
			rc = take_each(b, where, "any", RSK_COND_ANY, w->any, w->n_any);
		if (rc == 0)
			rc = take_each(b, where, "all", RSK_COND_ALL, w->all, w->n_all);
		if (rc == 0)
			rc = take_each(b, where, "not", RSK_COND_NOT, w->not_, w->not_ != NULL);
	}
	end(b, all);
	return rc;
}
