// SPDX-License-Identifier: BSD-2-Clause
/* agent.c - see agent.h. */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#include "redirect.h"

static struct rsk_pma_question question_of(const struct rsk_pm_msg *req, enum rsk_pma_side side,
					   uint64_t now_ns)
{
	struct rsk_pma_question q = { .side = side,
				      .ipv = req->ipv,
				      .cp_port = req->cp_port,
				      .ap_port = req->ap_port,
				      .uid = RSK_PMA_NOBODY,
				      .now_ns = now_ns };

	memcpy(q.cp_ip, req->cp_ip, 16);
	memcpy(q.ap_ip, req->ap_ip, 16);
	return q;
}

void rsk_agent_measure(struct rsk_agent *a, uint64_t now_ns)
{
	double load;

	if (rsk_load_look(a->load, now_ns, &load) > 0)
		rsk_pma_load_set(a->pma, load);
}

static void count(struct rsk_agent *a, enum rsk_pma_verdict v)
{
	if (v <= RSK_PMA_ELSEWHERE)
		a->count.verdicts[v]++;
}

/* A port for the service that is asked for, on the address that was chosen. 0: none can be had. */
static uint16_t make_port(struct rsk_agent *a, const struct rsk_pm_msg *req,
			  const uint8_t ip[static 16])
{
	struct rsk_pm_addr service = { .port = req->ap_port, .ipv = req->ipv };
	int port;

	memcpy(service.ip, req->ap_ip, 16);
	port = rsk_ports_take(a->ports, &service, ip);
	return port > 0 ? (uint16_t)port : 0;
}

/* What was held for it stays right, if it is asked for again and nothing has moved. */
static bool same_place(const struct rsk_pmsp_grant *g, const struct rsk_pma_answer *answer)
{
	return g->id && memcmp(g->ip, answer->ip, 16) == 0 &&
	       (!answer->port || answer->port == g->port);
}

/* Another host answers in our place; it is told who asked. */
static enum rsk_pmsp_verdict redirect(struct rsk_agent *a, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from,
				      const struct rsk_pma_answer *answer)
{
	struct rsk_pm_addr to = { .port = RSK_PM_UDP_PORT, .ipv = answer->redirect_ipv };
	uint8_t envelope[RSK_REDIRECT_BYTES];
	ssize_t n = rsk_redirect_wrap(req, from, a->hops, envelope);

	if (n < 0) {
		a->count.redirects_dropped++;
		return RSK_PMSP_SILENT;
	}
	memcpy(to.ip, answer->redirect_ip, 16);
	a->count.redirected++;
	rsk_udp_send(a->udp, &to, envelope, (size_t)n);
	return RSK_PMSP_SILENT;
}

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	struct rsk_agent *a = ctx;
	struct rsk_pma_question q = question_of(req, RSK_PMA_AP, rsk_udp_now_ns());
	struct rsk_pma_answer answer;
	uint16_t port;

	q.held = grant->id;
	rsk_agent_measure(a, q.now_ns);
	rsk_pma_decide(a->pma, &q, &answer);
	count(a, answer.verdict);
	if (answer.verdict == RSK_PMA_ELSEWHERE)
		return redirect(a, req, from, &answer);
	if (answer.verdict != RSK_PMA_MAP)
		return RSK_PMSP_DENY;
	port = answer.port;
	if (same_place(grant, &answer)) {
		port = grant->port;
	} else {
		if (!port)
			port = make_port(a, req, answer.ip);
		if (!port) {
			a->count.no_port++;
			if (answer.reservation != grant->id)
				rsk_pma_release(a->pma, answer.reservation);
			return RSK_PMSP_DENY;
		}
		if (grant->id)
			rsk_ports_put(a->ports, grant->ipv, grant->ip, grant->port);
	}
	*grant = (struct rsk_pmsp_grant){ .id = answer.reservation,
					  .port = port,
					  .ipv = req->ipv,
					  .pm_time_s = answer.pm_time_s };
	memcpy(grant->ip, answer.ip, 16);
	return RSK_PMSP_ACCEPT;
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	struct rsk_agent *a = ctx;

	rsk_ports_put(a->ports, grant->ipv, grant->ip, grant->port);
	rsk_pma_release(a->pma, grant->id);
}

static bool used(void *ctx, const struct rsk_pmsp_grant *grant, bool last)
{
	struct rsk_agent *a = ctx;
	uint64_t session = last ? grant->id : rsk_pma_another(a->pma, grant->id);

	if (!session)
		return false;
	rsk_pma_confirm(a->pma, session);
	if (last)
		rsk_ports_put(a->ports, grant->ipv, grant->ip, grant->port);
	a->session = session;
	return true;
}

static void send_datagram(void *ctx, const struct rsk_pm_addr *to, const void *datagram,
			  size_t bytes)
{
	rsk_udp_send(((struct rsk_agent *)ctx)->udp, to, datagram, bytes);
}

const struct rsk_pmsp_ops rsk_agent_pmsp_ops = { .decide = decide,
						 .used = used,
						 .release = release,
						 .send = send_datagram };

bool rsk_agent_may_ask(struct rsk_agent *a, const struct rsk_pm_msg *req, uint32_t uid,
		       uint64_t now_ns, struct rsk_pma_answer *out)
{
	struct rsk_pma_question q = question_of(req, RSK_PMA_CP, now_ns);

	q.uid = uid;
	rsk_agent_measure(a, now_ns);
	rsk_pma_decide(a->pma, &q, out);
	count(a, out->verdict);
	return out->verdict == RSK_PMA_MAP;
}

struct rsk_pma_device_view *rsk_agent_devices(const struct rsk_agent *a, size_t *n)
{
	struct rsk_pma_device_view *view = NULL;

	*n = rsk_pma_devices(a->pma, NULL, 0);
	if (*n)
		view = calloc(*n, sizeof(*view));
	if (view)
		rsk_pma_devices(a->pma, view, *n);
	else
		*n = 0;
	return view;
}
