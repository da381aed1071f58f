// SPDX-License-Identifier: BSD-2-Clause
/*
 * services_publish.c - see services_publish.h. Once a second the entry is built, and written if it
 * is not in etcd as it should be: it says something else, it was bound to a lease that is gone, or
 * the watch has told that somebody else has changed or deleted it. Where nothing is offered there
 * is none.
 */
#include "services_publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "random.h"
#include "say.h"

#define EACH_S 1
/* Another tool that writes the same key does not make this daemon write without end. */
#define LOST_NS 5000000000ull
#define ANSWER_MOST 8192u
/* So many writes at once, and in the long run one each so often: all hosts hear of each. */
#define WRITES_AT_ONCE 10
#define WRITE_NS 10000000000ull

static void forget_written(struct rsk_services_publish *p)
{
	free(p->written);
	p->written = NULL;
}

/* That etcd is not reached is logged by document.c. */
static void failed(struct rsk_services_publish *p, int rc, const char *why)
{
	char line[512];

	p->count.failures++;
	p->not_before_ns = rsk_clock_ns() + rsk_backoff_ns(++p->failures, rsk_random_u64());
	if (rc == -EHOSTUNREACH || rc == -ETIMEDOUT || rc == -ENOENT || p->is_told)
		return;
	p->is_told = true;
	snprintf(line, sizeof(line), "%s", why);
	rsk_document_clean(line);
	rsk_say("this host's services are not told to the cluster: %s", line);
}

static void on_written(void *ctx, int rc, const json_t *body, const char *why)
{
	struct rsk_services_publish *p = ctx;
	struct rsk_etcd_answer a = { 0 };

	p->call = NULL;
	if (rc == 0) {
		why = "an answer of etcd about the services is not valid";
		rc = rsk_etcd_take_txn(body, &a);
	}
	forget_written(p);
	if (rc == 0 && a.succeeded) {
		p->written = p->writing;
		p->writing = NULL;
		p->lease = p->writing_lease;
		p->revision = a.revision;
		p->count.writes++;
		p->failures = 0;
		p->is_told = false;
	} else {
		free(p->writing);
		p->writing = NULL;
		/* Not executed: member.c has written its entry meanwhile, or does not hold it. */
		failed(p, rc < 0 ? rc : -ENOENT, why);
	}
	rsk_etcd_answer_free(&a);
}

/* Takes ownership of @text. */
static void write_entry(struct rsk_services_publish *p, char *text)
{
	json_t *txn = rsk_etcd_txn();
	const struct rsk_etcd_question q = { .method = RSK_ETCD_TXN,
					     .body = txn,
					     .answer_most = ANSWER_MOST,
					     .done = on_written,
					     .ctx = p };
	int rc = rsk_etcd_txn_compare(txn, p->member->key, p->member->held);

	p->writing = text;
	p->writing_lease = p->member->lease;
	if (rc == 0)
		rc = rsk_etcd_txn_put(txn,
				      rsk_etcd_put(p->key, text, strlen(text), p->member->lease));
	if (rc == 0)
		p->call = rsk_etcd_ask(p->etcd, &q);
	else
		json_decref(txn);
	if (!p->call) {
		free(p->writing);
		p->writing = NULL;
		failed(p, -ENOMEM, "no memory");
	}
}

/* The watch has told of the revision that was written here, and the key has another one now. */
static bool is_lost(const struct rsk_services_publish *p)
{
	const struct rsk_services_table *t = p->watch->table;

	return p->watch->is_in_sync && !t->is_full && p->watch->revision >= p->revision &&
	       rsk_services_table_revision(t, p->key) != p->revision;
}

/*
 * A host that offers nothing has no entry, since all others would have to hear of it, and of its
 * end. Once there is one it stays with its lease, and says so.
 */
static bool has_news(const struct rsk_services_publish *p)
{
	return p->self->entry.n || p->self->entry.left_out ||
	       (p->written && p->lease == p->member->lease) ||
	       (p->watch->is_in_sync && rsk_services_table_revision(p->watch->table, p->key));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_services_publish *p = arg;
	const struct rsk_member *m = p->member;
	uint64_t now = rsk_clock_ns();
	char *text;

	if (rsk_services_self_update(p->self, now) < 0)
		return;
	if (p->call || m->is_leaving || !rsk_member_is_registered(m) || now < p->not_before_ns ||
	    !has_news(p))
		return;
	text = rsk_service_entry_text(&p->self->entry);
	if (!text) {
		failed(p, -ENOMEM, "no memory");
		return;
	}
	if (p->written && p->lease == m->lease && strcmp(text, p->written) == 0) {
		if (!is_lost(p)) {
			free(text);
			return;
		}
		p->count.losses++;
		p->not_before_ns = now + LOST_NS;
	}
	if (rsk_bucket_take(&p->paid_ns, now, WRITE_NS, WRITES_AT_ONCE))
		write_entry(p, text);
	else
		free(text);
}

int rsk_services_publish_open(struct rsk_services_publish *p, struct event_base *base,
			      struct rsk_etcd *etcd, const char *head,
			      const struct rsk_member *member, const struct rsk_range_watch *watch,
			      struct rsk_services_self *self)
{
	static const struct timeval each = { .tv_sec = EACH_S };

	*p = (struct rsk_services_publish){
		.etcd = etcd, .member = member, .watch = watch, .self = self
	};
	snprintf(p->key, sizeof(p->key), "%s%s", head, self->entry.node);
	p->timer = event_new(base, -1, EV_PERSIST, on_timer, p);
	return p->timer && event_add(p->timer, &each) == 0 ? 0 : -ENOMEM;
}

void rsk_services_publish_close(struct rsk_services_publish *p)
{
	rsk_etcd_cancel(p->call);
	p->call = NULL;
	free(p->writing);
	p->writing = NULL;
	forget_written(p);
	if (p->timer)
		event_free(p->timer);
	p->timer = NULL;
}
