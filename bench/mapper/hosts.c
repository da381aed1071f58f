// SPDX-License-Identifier: BSD-2-Clause
/*
 * hosts.c - simulates a fabric of hosts with one central PMSP on virtual time: each host has a PM
 * client, which requests connections at random (Poisson); the network has delay and loss; the PMSP
 * has one core that takes a fixed time for each datagram, and a socket buffer that can overflow.
 * The state machines are the daemon's own. Prints JSON. Run by mapper.py.
 *
 * 	pmhosts HOSTS REQUESTS_PER_S_AND_HOST SECONDS DELAY_US LOSS_PERCENT SERVICE_NS [SEED]
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/splitmix.h>

#include "agenda.h"
#include "pm_client.h"
#include "pmsp.h"

#define BUFFER_DATAGRAMS 4096
#define SECOND 1000000000ull

enum happening {
	ARRIVES,   /* a datagram reaches its host, or the PMSP's buffer */
	SERVED,	   /* the PMSP has handled the first datagram of its buffer */
	ASKS,	   /* a host requests a mapping */
	CLIENT_DUE /* a timer of its PM client expires */
};

struct event {
	struct appointment at; /* must be first */
	enum happening what;
	uint32_t host;
	struct rsk_pm_addr from, to;
	uint8_t bytes[64];
	size_t n;
};

struct host {
	struct rsk_pm_client client;
	struct event asks, due;
	struct rsk_pm_addr at;
	uint16_t next_port;
};

struct question {
	uint64_t asked_ns;
};

static struct {
	uint64_t now_ns, dice, delay_ns, service_ns, end_ns;
	double loss, mean_gap_ns;
	struct agenda events;
	struct host *hosts;
	uint32_t n_hosts;
	struct rsk_pmsp pmsp;
	struct event *buffer[BUFFER_DATAGRAMS];
	uint32_t first, queued, longest;
	uint64_t busy_ns, overflowed, lost, delivered, grants;
	double *took_us;
	size_t n_took, room_took;
	uint64_t outcomes[RSK_PM_NO_ANSWER + 1];
} w;

static const struct rsk_pm_addr pmsp_at = { .ip = { 192, 168, 0, 1 },
					    .port = RSK_PM_UDP_PORT,
					    .ipv = RSK_PM_IPV4 };

static uint64_t roll(void)
{
	return rsk_splitmix_next(&w.dice);
}

/* A random number above 0 and below 1. */
static double chance(void)
{
	return ((double)(roll() >> 11) + 0.5) / 9007199254740992.0;
}

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "pmhosts: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static void at(struct event *e, uint64_t ns)
{
	must(agenda_set(&w.events, &e->at, ns), "an event");
}

static void post(const struct rsk_pm_addr *from, const struct rsk_pm_addr *to, uint32_t host,
		 const void *bytes, size_t n)
{
	struct event *e;

	if (chance() < w.loss) {
		w.lost++;
		return;
	}
	e = calloc(1, sizeof(*e));
	must(e ? 0 : -ENOMEM, "a datagram");
	*e = (struct event){ .what = ARRIVES, .host = host, .from = *from, .to = *to, .n = n };
	memcpy(e->bytes, bytes, n);
	/* Half of the delay is fixed, half is random. */
	at(e, w.now_ns + w.delay_ns / 2 + (uint64_t)(chance() * (double)w.delay_ns));
}

/* ---- the PMSP ---- */

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	if (!grant->id)
		grant->id = ++w.grants;
	memcpy(grant->ip, req->ap_ip, 16);
	grant->port = 20000;
	grant->pm_time_s = 10;
	return RSK_PMSP_ACCEPT;
}

static void used(void *ctx, const struct rsk_pmsp_grant *grant)
{
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
}

static uint32_t host_at(const struct rsk_pm_addr *a)
{
	return (uint32_t)a->ip[1] << 16 | (uint32_t)a->ip[2] << 8 | a->ip[3];
}

static void pmsp_send(void *ctx, const struct rsk_pm_addr *to, const void *bytes, size_t n)
{
	post(&pmsp_at, to, host_at(to), bytes, n);
}

static void serve_next(void)
{
	struct event *e = w.buffer[w.first];

	e->what = SERVED;
	at(e, w.now_ns + w.service_ns);
}

static void into_buffer(struct event *e)
{
	if (w.queued == BUFFER_DATAGRAMS) {
		w.overflowed++;
		free(e);
		return;
	}
	w.buffer[(w.first + w.queued++) % BUFFER_DATAGRAMS] = e;
	if (w.queued > w.longest)
		w.longest = w.queued;
	if (w.queued == 1)
		serve_next();
}

static void served(struct event *e)
{
	w.busy_ns += w.service_ns;
	rsk_pmsp_receive(&w.pmsp, &e->from, e->bytes, e->n, w.now_ns);
	free(e);
	w.first = (w.first + 1) % BUFFER_DATAGRAMS;
	if (--w.queued)
		serve_next();
}

/* ---- hosts ---- */

static uint64_t host_random(void *ctx)
{
	return roll() | 1;
}

static void host_send(void *ctx, const struct rsk_pm_addr *to, const void *bytes, size_t n)
{
	const struct host *h = ctx;

	post(&h->at, to, UINT32_MAX, bytes, n);
}

static void host_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
		      const struct rsk_pm_mapping *m)
{
	struct question *q = user;

	w.outcomes[outcome]++;
	if (w.n_took == w.room_took) {
		w.room_took = w.room_took ? 2 * w.room_took : 65536;
		w.took_us = reallocarray(w.took_us, w.room_took, sizeof(double));
		must(w.took_us ? 0 : -ENOMEM, "a figure");
	}
	if (outcome == RSK_PM_MAPPED)
		w.took_us[w.n_took++] = (double)(w.now_ns - q->asked_ns) / 1000;
	free(q);
}

static void follow(struct host *h)
{
	uint64_t next = rsk_pm_client_next(&h->client);

	if (next == UINT64_MAX)
		agenda_clear(&w.events, &h->due.at);
	else
		at(&h->due, next);
}

static void ask(struct host *h)
{
	struct question *q = malloc(sizeof(*q));
	uint32_t other = (uint32_t)(roll() % w.n_hosts);
	struct rsk_pm_msg req = {
		.op = RSK_PM_REQ, .ipv = RSK_PM_IPV4, .ap_port = 5201, .cp_port = h->next_port
	};
	struct rsk_pm_mapping m;
	int rc;

	must(q ? 0 : -ENOMEM, "a question");
	q->asked_ns = w.now_ns;
	h->next_port = h->next_port == UINT16_MAX ? 1024 : (uint16_t)(h->next_port + 1);
	memcpy(req.cp_ip, h->at.ip, 16);
	memcpy(req.ap_ip, w.hosts[other].at.ip, 16);
	rc = rsk_pm_client_ask(&h->client, &req, &pmsp_at, q, w.now_ns, &m);
	must(rc, "ask");
	if (rc != RSK_PM_PENDING)
		host_done(h, q, (enum rsk_pm_outcome)rc, &m);
	if (w.now_ns < w.end_ns)
		at(&h->asks, w.now_ns + 1 + (uint64_t)(-log(chance()) * w.mean_gap_ns));
}

static const struct rsk_pmsp_ops pmsp_ops = { .decide = decide,
					      .used = used,
					      .release = release,
					      .send = pmsp_send };
static const struct rsk_pm_client_ops client_ops = { .random = host_random,
						     .send = host_send,
						     .done = host_done };

static void set_up(void)
{
	struct rsk_pm_client_config client = RSK_PM_CLIENT_DEFAULT;
	struct rsk_pmsp_config pmsp = RSK_PMSP_DEFAULT;

	pmsp.max_open = 1u << 22;
	pmsp.seed = roll();
	must(rsk_pmsp_init(&w.pmsp, &pmsp, &pmsp_ops, NULL), "the PMSP");
	w.hosts = calloc(w.n_hosts, sizeof(*w.hosts));
	must(w.hosts ? 0 : -ENOMEM, "hosts");
	for (uint32_t i = 0; i < w.n_hosts; i++) {
		struct host *h = &w.hosts[i];

		h->at = (struct rsk_pm_addr){ .ip = { 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8),
						      (uint8_t)i },
					      .port = 40000,
					      .ipv = RSK_PM_IPV4 };
		h->next_port = 1024;
		h->asks = (struct event){ .what = ASKS, .host = i };
		h->due = (struct event){ .what = CLIENT_DUE, .host = i };
		rsk_pm_client_init(&h->client, &client, &client_ops, h);
		at(&h->asks, 1 + (uint64_t)(chance() * w.mean_gap_ns));
	}
}

static void happen(struct event *e)
{
	struct host *h;

	if (e->what == SERVED) {
		served(e);
		return;
	}
	w.delivered += e->what == ARRIVES;
	if (e->host >= w.n_hosts) {
		into_buffer(e);
		return;
	}
	h = &w.hosts[e->host];
	switch (e->what) {
	case ARRIVES:
		rsk_pm_client_receive(&h->client, &e->from, e->bytes, e->n, w.now_ns);
		free(e);
		break;
	case ASKS:
		ask(h);
		break;
	default:
		rsk_pm_client_tick(&h->client, w.now_ns);
		break;
	}
	follow(h);
}

static void run(void)
{
	uint64_t next, timer;

	for (;;) {
		next = agenda_next(&w.events);
		timer = rsk_pmsp_next(&w.pmsp);
		if (next == UINT64_MAX && timer == UINT64_MAX)
			return;
		if (timer <= next) {
			w.now_ns = timer > w.now_ns ? timer : w.now_ns;
			rsk_pmsp_tick(&w.pmsp, w.now_ns);
			continue;
		}
		w.now_ns = next;
		happen((struct event *)agenda_take(&w.events, next));
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double q)
{
	return w.n_took ? w.took_us[(size_t)((double)(w.n_took - 1) * q)] : 0;
}

static void tell(double seconds)
{
	uint64_t sends = 0, repeats = 0;

	for (uint32_t i = 0; i < w.n_hosts; i++) {
		sends += w.hosts[i].client.count.sends;
		repeats += w.hosts[i].client.count.repeats;
	}
	qsort(w.took_us, w.n_took, sizeof(double), by_size);
	printf("{\"hosts\": %u, \"requests\": %lu, \"requests_per_s\": %.0f, \"mapped\": %lu, "
	       "\"unanswered\": %lu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
	       "\"max_us\": %.1f, \"repeated\": %lu, \"busy\": %.4f, \"longest_queue\": %u, "
	       "\"overflowed\": %lu, \"lost\": %lu, \"open_at_end\": %zu, \"expired\": %lu}\n",
	       w.n_hosts, (unsigned long)sends, (double)sends / seconds,
	       (unsigned long)w.outcomes[RSK_PM_MAPPED],
	       (unsigned long)w.outcomes[RSK_PM_NO_ANSWER], quantile(0.5), quantile(0.99),
	       quantile(0.999), quantile(1), (unsigned long)repeats,
	       (double)w.busy_ns / 1e9 / seconds, w.longest, (unsigned long)w.overflowed,
	       (unsigned long)w.lost, w.pmsp.table.n, (unsigned long)w.pmsp.count.expired);
}

int main(int argc, char **argv)
{
	double rate, seconds;

	if (argc != 7 && argc != 8) {
		fputs("usage: pmhosts HOSTS REQUESTS_PER_S_AND_HOST SECONDS DELAY_US LOSS_PERCENT "
		      "SERVICE_NS [SEED]\n",
		      stderr);
		return 2;
	}
	w.n_hosts = (uint32_t)strtoul(argv[1], NULL, 10);
	rate = strtod(argv[2], NULL);
	seconds = strtod(argv[3], NULL);
	w.delay_ns = (uint64_t)(strtod(argv[4], NULL) * 1000);
	w.loss = strtod(argv[5], NULL) / 100;
	w.service_ns = strtoull(argv[6], NULL, 10);
	w.dice = argc == 8 ? strtoull(argv[7], NULL, 10) : 1;
	if (!w.n_hosts || rate <= 0 || seconds <= 0) {
		fputs("pmhosts: hosts, rate and seconds are above 0\n", stderr);
		return 2;
	}
	w.mean_gap_ns = 1e9 / rate;
	w.end_ns = (uint64_t)(seconds * 1e9);
	set_up();
	run();
	tell(seconds);
	return w.pmsp.table.n != 0;
}
