// SPDX-License-Identifier: BSD-2-Clause
/* quota_lease.c - see quota_lease.h. */
#include "quota_lease.h"

#include <errno.h>
#include <rsock/clock.h>
#include <stdio.h>

#include "backoff.h"
#include "document.h"
#include "etcd_msg.h"
#include "random.h"

#define SECOND_NS 1000000000ull
#define SMALL_MOST 8192u
#define REVOKE_NS 200000000ull

static void step(struct rsk_quota_lease *l);

uint64_t rsk_quota_now_ns(void)
{
	return rsk_time_ns(CLOCK_BOOTTIME);
}

static void after_ns(struct rsk_quota_lease *l, uint64_t ns)
{
	const struct timeval tv = { .tv_sec = (time_t)(ns / SECOND_NS),
				    .tv_usec = (suseconds_t)(ns % SECOND_NS / 1000) };

	event_add(l->timer, &tv);
}

/* That etcd is not reached is logged by document.c, and what follows from it by quotas.c. */
static void failed(struct rsk_quota_lease *l, const char *why)
{
	snprintf(l->why, sizeof(l->why), "%s", why);
	rsk_document_clean(l->why);
	after_ns(l, rsk_backoff_ns(++l->failures, rsk_random_u64()));
}

/* None of our quotas may be used from now on; the next step asks for another lease. */
static void lapsed(struct rsk_quota_lease *l)
{
	l->count.lapses++;
	l->lease = l->until_ns = 0;
	l->changed(l->ctx);
	after_ns(l, rsk_backoff_ns(++l->failures, rsk_random_u64()));
}

/* The end of the lease is counted from when etcd was asked, since its answer may be late. */
static void on_answer(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_quota_lease *l = ctx;
	uint64_t lease = 0, seconds = 0, half_ns;

	l->call = NULL;
	if (rc == 0) {
		why = "an answer of etcd about the lease of the quotas is not valid";
		rc = rsk_etcd_take_lease(body, &lease, &seconds);
		if (rc == 0 && seconds > UINT32_MAX)
			rc = -EPROTO;
	}
	/*
	 * Quotas that are not valid any more are not made so again: a node of etcd that was stopped
	 * while it led may say that a lease is kept alive that the others have ended.
	 */
	if (l->lease && (rc == -ENOENT || (rc == 0 && (lease != l->lease || !seconds ||
						       rsk_quota_now_ns() >= l->until_ns)))) {
		lapsed(l);
		return;
	}
	if (rc < 0 || !seconds) {
		failed(l, why);
		return;
	}
	half_ns = seconds * SECOND_NS / 2;
	l->until_ns = l->begun_ns + (half_ns < l->hold_ns ? half_ns : l->hold_ns);
	l->renew_ns = l->begun_ns + (l->until_ns - l->begun_ns) / 3;
	l->failures = 0;
	*l->why = 0;
	if (!l->lease) {
		l->count.grants++;
		l->lease = lease;
		l->changed(l->ctx);
	} else {
		l->count.renewals++;
	}
	step(l);
}

static void step(struct rsk_quota_lease *l)
{
	struct rsk_etcd_question q = {
		.answer_most = SMALL_MOST, .limit_ns = l->hold_ns / 3, .done = on_answer, .ctx = l
	};
	uint64_t now = rsk_quota_now_ns();

	if (l->call)
		return;
	if (l->lease && now < l->renew_ns) {
		after_ns(l, l->renew_ns - now);
		return;
	}
	q.method = l->lease ? RSK_ETCD_LEASE_KEEPALIVE : RSK_ETCD_LEASE_GRANT;
	q.body = l->lease ? rsk_etcd_lease(l->lease) :
			    rsk_etcd_lease_grant(2 * l->hold_ns / SECOND_NS);
	l->begun_ns = now;
	l->call = rsk_etcd_ask(l->etcd, &q);
	if (!l->call)
		failed(l, "no memory");
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	step(arg);
}

void rsk_quota_lease_look(struct rsk_quota_lease *l)
{
	if (l->is_leaving)
		return;
	l->renew_ns = 0;
	if (!l->call)
		after_ns(l, 0);
}

int rsk_quota_lease_open(struct rsk_quota_lease *l, struct event_base *base, struct rsk_etcd *etcd,
			 uint64_t hold_ns, void (*changed)(void *ctx), void *ctx)
{
	*l = (struct rsk_quota_lease){
		.etcd = etcd, .hold_ns = hold_ns, .changed = changed, .ctx = ctx
	};
	l->timer = evtimer_new(base, on_timer, l);
	if (!l->timer)
		return -ENOMEM;
	step(l);
	return 0;
}

static void on_left(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_quota_lease *l = ctx;

	l->call = NULL;
	l->left(l->left_ctx);
}

bool rsk_quota_lease_leave(struct rsk_quota_lease *l, void (*left)(void *ctx), void *ctx)
{
	const struct rsk_etcd_question q = { .method = RSK_ETCD_LEASE_REVOKE,
					     .body = rsk_etcd_lease(l->lease),
					     .answer_most = SMALL_MOST,
					     .limit_ns = REVOKE_NS,
					     .done = on_left,
					     .ctx = l };

	if (!l->lease || l->failures || l->is_leaving) {
		json_decref(q.body);
		return false;
	}
	rsk_etcd_cancel(l->call);
	event_del(l->timer);
	l->until_ns = 0;
	l->is_leaving = true;
	l->left = left;
	l->left_ctx = ctx;
	l->call = rsk_etcd_ask(l->etcd, &q);
	return l->call != NULL;
}

void rsk_quota_lease_close(struct rsk_quota_lease *l)
{
	if (!l->timer)
		return;
	rsk_etcd_cancel(l->call);
	l->call = NULL;
	event_free(l->timer);
	l->timer = NULL;
}
