// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_serve.c - tests what a central agent answers over HTTP when it has no memory: the fault
 * is its own, and the message is not called malformed. The reader of reports is wrapped, so that it
 * can fail.
 */
#include "pma_serve.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "pma_json.h"
#include "pma_kit.h"

#define REPORT                                                                                     \
	"{\"node\":\"a\",\"boot\":\"0123456789abcdef\",\"resume\":true,\"part\":0,\"last\":true,"  \
	"\"load\":0,\"devices\":[],\"held\":[]}"

#define BY_ROLE(role)                                                                              \
	"{\"node\":\"a\",\"boot\":\"0123456789abcdef\",\"resume\":true,\"part\":0,\"last\":true,"  \
	"\"load\":0,\"devices\":[],\"held\":[],\"role\":" role "}"

static const char *const no_roles[] = { BY_ROLE("0"), BY_ROLE("-1"), BY_ROLE("\"5\""),
					BY_ROLE("null"), BY_ROLE("5.0") };

static uint64_t role_here;

static uint64_t role(void *ctx)
{
	return role_here;
}

static const char text[] = "node: here\n"
			   "rnics: [{name: one, addresses: [10.0.0.1]}]\n"
			   "services: [{name: any, ports: [1-65535]}]\n";

/* ---- stubs and wraps ---- */

uint64_t rsk_clock_ns(void)
{
	return 1000000000;
}

void rsk_say(const char *format, ...)
{
}

static int fails; /* -errno of the next report; 0: none */

int __real_rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who,
				    struct rsk_pma_report *out);
int __wrap_rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who,
				    struct rsk_pma_report *out);

int __wrap_rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who,
				    struct rsk_pma_report *out)
{
	return fails ? fails : __real_rsk_pma_json_take_report(body, who, out);
}

/* ---- a client, in the same event loop ---- */

static struct event_base *base;
static struct rsk_pma_serve server;
static uint16_t port;

static void after(void *ctx)
{
}

/* A free port. Another process may take it at once; rsk_pma_serve_open() would report that. */
static uint16_t free_port(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	return ntohs(sa.sin_port);
}

static void on_answer(struct evhttp_request *req, void *arg)
{
	*(int *)arg = req ? evhttp_request_get_response_code(req) : -1;
	event_base_loopbreak(base);
}

/* The status of the answer to a report. */
static int report(const char *body)
{
	struct evhttp_connection *c = evhttp_connection_base_new(base, NULL, "127.0.0.1", port);
	int status = 0;
	struct evhttp_request *req = evhttp_request_new(on_answer, &status);

	cr_assert(c && req);
	evbuffer_add(evhttp_request_get_output_buffer(req), body, strlen(body));
	evhttp_add_header(evhttp_request_get_output_headers(req), "Host", "here");
	cr_assert_eq(evhttp_make_request(c, req, EVHTTP_REQ_POST, "/v1/pma/report"), 0);
	event_base_dispatch(base);
	evhttp_connection_free(c);
	return status;
}

Test(pma_serve, without_memory)
{
	struct rsk_pm_addr at = { .ip = { 127, 0, 0, 1 }, .ipv = RSK_PM_IPV4 };
	struct rsk_conf_prefix all = { .ip = { 127 }, .ipv = RSK_PM_IPV4, .bits = 8 };
	struct rsk_conf_pma conf = {
		.listen = &at,
		.n_listen = 1,
		.allow = &all,
		.n_allow = 1,
		.central_agent = { .lost_ns = 10000000000,
				   .lease_ns = 10000000000,
				   .max_nodes = 4,
				   .max_leases = 4 },
	};
	struct rsk_pma *pma = pma_of(text);

	base = event_base_new();
	at.port = port = free_port();
	cr_assert_eq(rsk_pma_serve_open(&server, base, pma, &conf, NULL, after, NULL), 0);
	cr_assert_eq(report(REPORT), HTTP_OK);
	cr_assert_eq(report("{}"), HTTP_BADREQUEST);
	cr_assert_eq(server.count.malformed, 1);
	fails = -ENOMEM;
	cr_assert_eq(report(REPORT), HTTP_INTERNAL);
	cr_assert_eq(server.count.malformed, 1);
	fails = 0;
	cr_assert_eq(report(REPORT), HTTP_OK);
	/* Who comes by a role is answered only while this agent has it; others always are. */
	cr_assert_eq(report(BY_ROLE("5")), HTTP_SERVUNAVAIL);
	server.role = role;
	cr_assert_eq(report(BY_ROLE("5")), HTTP_SERVUNAVAIL);
	server.central_agent.grace_until_ns = 0;
	role_here = 5;
	cr_assert_eq(report(BY_ROLE("5")), HTTP_OK);
	cr_assert(rsk_central_in_grace(&server.central_agent, rsk_clock_ns()), "it takes over");
	server.central_agent.grace_until_ns = 0;
	cr_assert_eq(report(BY_ROLE("5")), HTTP_OK);
	cr_assert(!rsk_central_in_grace(&server.central_agent, rsk_clock_ns()), "once");
	cr_assert_eq(report(BY_ROLE("4")), HTTP_SERVUNAVAIL);
	role_here = 0;
	cr_assert_eq(report(BY_ROLE("5")), HTTP_SERVUNAVAIL);
	cr_assert_eq(report(REPORT), HTTP_OK);
	cr_assert_eq(server.count.stood_by, 4);
	for (size_t i = 0; i < sizeof(no_roles) / sizeof(no_roles[0]); i++)
		cr_assert_eq(report(no_roles[i]), HTTP_BADREQUEST, "%s", no_roles[i]);
	rsk_pma_serve_close(&server);
	rsk_pma_free(pma);
	event_base_free(base);
}
