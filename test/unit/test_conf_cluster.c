// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_conf_cluster.c - tests the configuration of a cluster: the section about etcd, and a
 * document that is in force together with a host's own file.
 */
#include "conf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rsk_conf *both(const char *own, const char *document)
{
	struct rsk_conf *c = NULL;
	char error[512];
	int rc = rsk_conf_parse_shared(own, strlen(own), document, document ? strlen(document) : 0,
				       NULL, &c, error, sizeof(error));

	cr_assert_eq(rc, 0, "%s", error);
	cr_assert(rsk_conf_validate(c));
	return c;
}

static void refused(const char *own, const char *document, const char *why)
{
	struct rsk_conf *c = NULL;
	char error[512] = "";
	int rc = rsk_conf_parse_shared(own, strlen(own), document, document ? strlen(document) : 0,
				       NULL, &c, error, sizeof(error));

	cr_expect_eq(rc, -EINVAL, "%s: %d", document ? document : own, rc);
	cr_expect(strstr(error, why), "%s: \"%s\", not \"%s\"", document ? document : own, error,
		  why);
	if (rc == 0)
		rsk_conf_free(c);
}

Test(conf_cluster, section)
{
	struct rsk_conf *c =
		both("cluster: {etcd: ['https://10.0.0.7:2379', "
		     "'https://[fd00::7]:1', 'https://etcd-1.x:65535'],\n"
		     " prefix: /rsock/prod, user: u, password-file: /p, timeout: 3s,\n"
		     " lease: 2500ms, expire: 90s, history: 7, redirect: yes, address: 10.0.0.8,\n"
		     " order: listed,\n"
		     " tls: {ca: /ca, certificate: /c, key: /k}}\n",
		     NULL);
	const struct rsk_conf_cluster *k = &c->daemon.cluster;

	cr_assert_eq(k->n_endpoints, 3);
	cr_assert_str_eq(k->endpoints[0].url, "https://10.0.0.7:2379");
	cr_assert(k->endpoints[0].tls && !k->endpoints[0].is_name && k->endpoints[0].port == 2379);
	cr_assert_str_eq(k->endpoints[1].host, "fd00::7");
	cr_assert(!k->endpoints[1].is_name && k->endpoints[1].port == 1);
	cr_assert_str_eq(k->endpoints[2].host, "etcd-1.x");
	cr_assert(k->endpoints[2].is_name && k->endpoints[2].port == 65535);
	cr_assert_str_eq(k->prefix, "/rsock/prod");
	cr_assert_str_eq(k->ca, "/ca");
	cr_assert_str_eq(k->certificate, "/c");
	cr_assert_str_eq(k->key, "/k");
	cr_assert_str_eq(k->user, "u");
	cr_assert_str_eq(k->password_file, "/p");
	cr_assert_eq(k->timeout_ns, 3000000000);
	cr_assert_eq(k->lease_ns, 3000000000); /* whole seconds, rounded up */
	cr_assert_eq(k->expire_ns, 90000000000);
	cr_assert_eq(k->history_most, 7);
	cr_assert(k->address.ipv == 4 && k->address.ip[3] == 8);
	cr_assert(k->redirect && k->is_listed);
	rsk_conf_free(c);
	c = both("cluster: {etcd: ['http://127.0.0.1:2379']}", NULL);
	cr_assert_str_eq(c->daemon.cluster.prefix, "/rsock");
	cr_assert_eq(c->daemon.cluster.timeout_ns, 5000000000);
	cr_assert_eq(c->daemon.cluster.lease_ns, 10000000000);
	cr_assert_eq(c->daemon.cluster.expire_ns, 24 * 3600 * 1000000000ull);
	cr_assert_eq(c->daemon.cluster.history_most, 100);
	cr_assert(!c->daemon.cluster.redirect && !c->daemon.cluster.is_listed);
	cr_assert_eq(c->daemon.cluster.hold_ns, 0); /* no ledger */
	cr_assert(!c->daemon.cluster.endpoints[0].tls && !c->daemon.cluster.user);
	rsk_conf_free(c);
	c = both("cluster: {etcd: ['http://127.0.0.1:2379'], expire: lasting}", NULL);
	cr_assert_eq(c->daemon.cluster.expire_ns, UINT64_MAX);
	rsk_conf_free(c);
	c = both("cluster: {etcd: ['http://127.0.0.1:2379'], ledger: {hold: 20100ms}}", NULL);
	cr_assert_eq(c->daemon.cluster.hold_ns, 21000000000); /* whole seconds, rounded up */
	rsk_conf_free(c);
	c = both("cluster: {etcd: ['http://127.0.0.1:2379'], lease: 50s, ledger: {}}", NULL);
	cr_assert_eq(c->daemon.cluster.hold_ns, 100000000000);
	rsk_conf_free(c);
	c = both("node: a", NULL);
	cr_assert_eq(c->daemon.cluster.n_endpoints, 0);
	rsk_conf_free(c);
}

Test(conf_cluster, endpoints)
{
	static const char *const wrong[] = {
		"10.0.0.1:2379",       "ftp://10.0.0.1:2379",	"http://10.0.0.1",
		"http://10.0.0.1:",    "http://10.0.0.1:0",	"http://10.0.0.1:65536",
		"http://10.0.0.1:+1",  "http://10.0.0.1:2379/", "http://u@10.0.0.1:2379",
		"http://:2379",	       "http://[fd00::1:2379",	"http://[fd00::1]2379",
		"http://[name]:2379",  "http://fd00::1:2379",	"https://10.0.0.1:1 ",
		"https://10.0.0.1:1a", "http://a_b:1",		"https:/10.0.0.1:1",
	};
	char text[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "cluster: {etcd: ['%s']}", wrong[i]);
		refused(text, NULL, "cluster.etcd: \"");
	}
}

Test(conf_cluster, what_is_wrong_with_the_section)
{
#define AT "cluster: {etcd: ['https://10.0.0.1:1'], "
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "node: a\ncluster: {prefix: /a}", "etcd" },
		{ "cluster: {etcd: []}", "near: " },
		{ AT "prefix: a}", "cluster.prefix: \"a\"" },
		{ AT "prefix: /}", "cluster.prefix: \"/\"" },
		{ AT "prefix: /a/}", "cluster.prefix: " },
		{ AT "prefixes: /a}", "Unexpected key: prefixes, near: " },
		{ AT "tls: {ca: a}}", "cluster: tls.ca: \"a\" is not an absolute path" },
		{ AT "tls: {certificate: /a}}", "certificate and key: one without the other" },
		{ AT "tls: {key: /a}}", "certificate and key: one without the other" },
		{ AT "user: a}", "user and password-file: one without the other" },
		{ AT "password-file: /a}", "user and password-file: one without the other" },
		{ AT "user: '', password-file: /a}", "cluster: user: empty" },
		{ AT "timeout: 1ms}", "cluster: timeout: \"1ms\" is not within" },
		{ AT "timeout: 2min}", "cluster: timeout: " },
		{ AT "lease: 1s}", "cluster: lease: \"1s\" is not within" },
		{ AT "lease: 11min}", "cluster: lease: " },
		{ AT "order: first}", "order" },
		{ AT "address: here}", "cluster.address: \"here\" is not an address" },
		{ AT "address: 0.0.0.0}", "cluster.address: \"0.0.0.0\" is not an address" },
		{ AT "address: 127.0.0.1}", "cluster.address: " },
		{ AT "address: 'ff02::1'}", "cluster.address: " },
		{ AT "address: '10.0.0.1:1'}", "cluster.address: " },
		{ AT "history: 0}", "cluster: history: \"0\" is not within" },
		{ AT "history: 1001}", "cluster: history: " },
		{ AT "ledger: {hold: 3s}}", "ledger.hold: \"3s\" is not within" },
		{ AT "ledger: {hold: 2h}}", "ledger.hold: " },
		{ AT "ledger: {hold: 19s}}", "less than twice the lease" },
		{ AT "ledger: {held: 60s}}", "held" },
		{ AT "expire: 1s}", "cluster: expire: \"1s\" is not within" },
		{ AT "expire: 0}", "cluster: expire: \"0\" is not within" },
		{ AT "expire: 9000h}", "cluster: expire: " },
		{ AT "expire: never}", "cluster: expire: \"never\" is not a time" },
		{ AT "redirect: maybe}", "redirect" },
		{ "cluster: {etcd: ['http://10.0.0.1:1'], tls: {ca: /a}}", "no endpoint is https" },
		{ "cluster: {etcd: ['http://10.0.0.1:1', 'https://10.0.0.1:2'], user: a, "
		  "password-file: /a}",
		  "user: only where all endpoints are https" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i].text, NULL, bad[i].error);
}

static const char own[] = "limits: {sessions: 7}\n"
			  "rnics:\n"
			  "  - {name: r0, addresses: [10.0.0.1], group: fast}\n"
			  "  - {name: r1, addresses: [10.0.0.2]}\n"
			  "aggregates: [{address: 10.9.0.1, over: [r0]}]\n"
			  "services: [{name: mine, ports: ['1']}]\n"
			  "functions: [{name: f, when: {ports: ['1']}}]\n"
			  "rules: [{name: a, when: {functions: [f]}}, {name: b}]\n";

Test(conf_cluster, document_over_a_file)
{
	struct rsk_conf *c = both(own, "services: [{name: shared, ports: ['2', '3']}]\n"
				       "rules: [{name: r, map: {group: fast}}]\n"
				       "aggregates: [{address: 10.9.0.2, over: [r0, r1]},\n"
				       "             {address: 10.9.0.3, over: [elsewhere]}]\n");

	cr_assert_eq(c->n_services, 1);
	cr_assert_str_eq(c->services[0].name, "shared");
	cr_assert(!c->service_at[1] && c->service_at[2] && c->service_at[3]);
	cr_assert_eq(c->n_rules, 1);
	cr_assert_eq(c->n_functions, 1, "the rule's own");
	cr_assert_eq(c->n_rnics, 2);
	cr_assert_eq(c->limits.sessions, 7);
	cr_assert_eq(c->n_aggregates, 2, "the host's own, and the one of which it knows RNICs");
	cr_assert_eq(c->aggregates[1].address.ip[3], 2);
	cr_assert_eq(c->aggregates[1].n_ports, 2);
	rsk_conf_free(c);
}

/* Without a list of rules the document has the default one, not the host's. */
Test(conf_cluster, document_without_rules)
{
	struct rsk_conf *c = both(own, "services: []\n");

	cr_assert(!c->n_services && c->n_rules == 1);
	cr_assert_str_eq(c->functions[c->rules[0].function].name, "registered");
	rsk_conf_free(c);
}

Test(conf_cluster, what_is_wrong_with_a_document)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "", "empty" },
		{ "# nothing\n", "empty" },
		{ "services: [{name: a, ports: ['1']}]\nrnics: []\n", "Unexpected key: rnics" },
		{ "limits: {sessions: 1}", "Unexpected key: limits" },
		{ "cluster: {etcd: ['http://10.0.0.1:1']}", "Unexpected key: cluster" },
		{ "services: 5", "near: " },
		{ "services: [{name: a}]\n", "near: " },
		{ "a: [\n", "line 2: " },
		{ "services: []\n---\nservices: []\n", "line 2: a second document" },
		{ "rules: [{name: r, when: {functions: [f]}}]", "rules[0] (r)" },
		{ "services: [{name: a, ports: ['0']}]", "services[0] (a): ports: \"0\"" },
		{ "aggregates: [{address: 10.9.0.1, over: [r0]}]", "aggregates[0] (10.9.0.1)" },
		{ "aggregates: [{address: 10.9.0.2, over: [r0, elsewhere]}]",
		  "aggregates[0] (10.9.0.2): over: there is no RNIC \"elsewhere\"" },
		{ "\x01\xff", "line 1" },
	};
	char *large = malloc(RSK_CONF_DOCUMENT_MOST + 2);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(own, bad[i].text, bad[i].error);
	memset(large, '#', RSK_CONF_DOCUMENT_MOST + 1);
	large[RSK_CONF_DOCUMENT_MOST + 1] = 0;
	refused(own, large, "bytes are too many");
	free(large);
}

/* The aggregates of a file are its own also where there is a document: unknown RNICs are wrong. */
Test(conf_cluster, own_aggregates_are_strict)
{
	refused("aggregates: [{address: 10.9.0.1, over: [r9]}]", "services: []",
		"over: there is no RNIC");
}

Test(conf_cluster, central_agents_by_role)
{
	struct rsk_conf *c = both("cluster: {etcd: ['http://127.0.0.1:2379']}\n"
				  "client: {central: cluster}\npma: {central: cluster}",
				  NULL);

	cr_assert(c->daemon.central_by_role && !c->daemon.central.port);
	cr_assert(c->daemon.pma.central_by_role && rsk_conf_pma_asks(&c->daemon.pma));
	cr_assert_eq(c->daemon.pma.mode, RSK_CONF_PMA_BOTH, "the default is as with an address");
	rsk_conf_free(c);
}
