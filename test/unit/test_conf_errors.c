// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_conf_errors.c - tests mistakes in rsockd's configuration: the message for each, and the
 * limits of references between conditions.
 */
#include "conf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *text, *error; /* error: a part of it */
} bad[] = {
	{ "node: [a\n", "line 2: did not find expected" },
	{ "node: a\nnode: b\n", "already seen: node" },
	{ "node: a\nmade-up: 1\n", "Unexpected key: made-up, near: in mapping (line: 1" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], speed: 3}]", "Unexpected key: speed" },
	{ "node: a\n---\nnode: b\n", "line 2: a second document" },
	{ "node: &x a\nuser: *x\n", "line: 2" },
	{ "- a\n", "Expecting MAPPING" },
	{ "node: ''", "node: empty" },
	{ "user: ''", "user: empty" },
	{ "control: run.sock", "control: \"run.sock\" is not an absolute path" },
	{ "listen: ['10.0.0.1']", "listen: \"10.0.0.1\" is not IP:port" },
	{ "listen: ['::1:80']", "is not IP:port" },
	{ "listen: ['1.1.1.1:1', '1.1.1.1:1']", "is there twice" },
	{ "listen: ['1.1.1.1:65536']", "is not IP:port" },
	{ "metrics: 'localhost:80'", "metrics: " },
	{ "watch-devices: 2", "Invalid ENUM value: 2" },
	{ "rdma-ports: 10-5", "rdma-ports: " },
	{ "pmsp: {ask-time: 10}", "pmsp: ask-time: \"10\" is not a time" },
	{ "pmsp: {ask-time: 0}", "pmsp: ask-time: \"0\" is not within" },
	{ "pmsp: {resends: 256}", "pmsp: resends: \"256\" is not within 0 and 255" },
	{ "pmsp: {resends: -1}", "pmsp: resends: \"-1\" is not a number" },
	{ "pmsp: {accept-time: 1s, resend-time: 2s}", "pmsp: resend-time: longer" },
	{ "client: {rto-least: 5s}", "client: rto-most: less" },
	{ "client: {central: 10.0.0.1}", "client.central: " },
	{ "pma: {listen: ['10.0.0.1:1']}", "pma: listen: nobody may ask without allow" },
	{ "pma: {listen: ['10.0.0.1']}", "pma.listen: \"10.0.0.1\" is not IP:port" },
	{ "pma: {allow: [10.0.0.1/8]}", "pma: allow: " },
	{ "pma: {central: here}", "pma.central: " },
	{ "client: {central: cluster}", "client: central: cluster: there is no cluster" },
	{ "pma: {central: cluster}", "pma: central: cluster: there is no cluster" },
	{ "cluster: {etcd: ['http://10.0.0.1:1']}\n"
	  "pma: {central: cluster, listen: ['10.0.0.1:1'], allow: [10.0.0.0/8]}",
	  "pma: central: cluster: not together with listen" },
	{ "pma: {mode: both}", "pma: mode: there is no central to ask" },
	{ "pma: {mode: no}", "near: " },
	{ "pma: {central: '10.0.0.1:1', timeout: 3s}", "pma: timeout: longer than pmsp.ask-time" },
	{ "pma: {lost-after: 1ms}", "pma: lost-after: \"1ms\" is not within" },
	{ "pma: {central: '10.0.0.1:1'}\nnode: "
	  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
	  "node: longer than 63 bytes" },
	{ "pma: {tls: {ca: /a, key: /b}}", "pma: tls: ca, certificate and key are needed" },
	{ "pma: {tls: {ca: /a, certificate: b, key: /c}}",
	  "tls.certificate: \"b\" is not an absolute path" },
	{ "overload: {load: 0}", "overload: load: \"0\" is not a part above 0" },
	{ "overload: {device-load: full}", "overload: device-load: \"full\"" },
	{ "overload: {load: 1, refuse-below-priority: 8}", "is not within 1 and 7" },
	{ "limits: {per-cp: 0}", "limits.per-cp: \"0\" is not within" },
	{ "rnics: [{addresses: [10.0.0.1]}]", "Missing required mapping field: name" },
	{ "rnics: [{name: a}]", "rnics[0] (a): addresses: a port needs one" },
	{ "rnics: [{name: 'a b', addresses: [10.0.0.1]}]", "rnics[0] (a b): name \"a b\": only" },
	{ "rnics: [{name: a, addresses: [10.0.0.1]}, {name: a, addresses: [10.0.0.2]}]",
	  "rnics[1] (a): name \"a\": there is another" },
	{ "rnics: [{name: a, addresses: [10.0.0.1]}, {name: b, addresses: [10.0.0.1]}]",
	  "rnics[1] (b): the address is another one's" },
	{ "rnics: [{name: a, addresses: ['::ffff:10.0.0.1']}]", "is not an IP address" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], reach: [10.0.0.1/8]}]",
	  "reach: \"10.0.0.1/8\"" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], bandwidth: 25}]", "is not a rate" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], bandwidth: 0bit}]", "is not within" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], qos: low}]", "Invalid ENUM value: low" },
	{ "rnics: [{name: a, addresses: [10.0.0.1], ports: [{name: p, addresses: [10.0.0.2]}]}]",
	  "each port's" },
	{ "rnics: [{name: a, ports: [{name: a/b, addresses: [10.0.0.2]}]}]",
	  "rnics[0] (a).ports[0]: name \"a/b\"" },
	{ "aggregates: [{address: 10.0.0.1, over: [x]}]",
	  "aggregates[0] (10.0.0.1): over: there is no RNIC \"x\"" },
	{ "rnics: [{name: a, addresses: [10.0.0.1]}]\n"
	  "aggregates: [{address: 10.0.0.1, over: [a]}]",
	  "the address is another one's" },
	{ "rnics: [{name: a, addresses: [10.0.0.1]}]\n"
	  "aggregates: [{address: 10.0.0.2, over: [a, a]}]",
	  "over: \"a\" is there twice" },
	{ "services: [{name: a, ports: ['0']}]", "ports: \"0\" is not a port" },
	{ "services: [{name: a, ports: [1-5]}, {name: b, ports: ['5']}]",
	  "services[1] (b): ports: 5 is of \"a\" already" },
	{ "services: [{name: a, ports: ['1'], pm-time: 255s}]", "pm-time: \"255s\"" },
	{ "services: [{name: a, ports: ['1'], pm-time: 1.5s}]", "pm-time: \"1.5s\"" },
	{ "services: [{name: a, ports: ['1'], transactions-wanted: 0}]",
	  "transactions-wanted: \"0\" is not within 1 and 1073741824" },
	{ "services: [{name: a, ports: ['1'], transactions-of: [root]}]",
	  "transactions-of without transactions-wanted" },
	{ "services: [{name: a, ports: ['1'], transactions-wanted: 1, transactions-of: [no-one]}]",
	  "transactions-of: there is no user \"no-one\"" },
	{ "services: [{name: a, ports: ['1'], dscp: 64}]", "dscp: \"64\" is not within 0 and 63" },
	{ "services: [{name: a, ports: ['1'], balance: maybe}]", "Invalid ENUM value: maybe" },
	{ "vouch: [{ports: ['1']}]", "vouch: an entry needs users, groups or cgroups" },
	{ "vouch: [{cgroups: [kubepods.slice]}]",
	  "vouch: cgroups: \"kubepods.slice\" does not begin with \"/\"" },
	{ "vouch: [{users: [root, nobody-of-this-name]}]",
	  "vouch: users: there is no user \"nobody-of-this-name\"" },
	{ "vouch: [{groups: [root, no-group-of-this-name]}]",
	  "vouch: groups: there is no group \"no-group-of-this-name\"" },
	{ "vouch: [{groups: ['99999999999']}]", "groups: there is no group \"99999999999\"" },
	{ "rules: []", "Insufficient entries" },
	{ "rules: [{name: a}, {name: a}]", "rules[1]: name \"a\": there is another" },
	{ "functions: [{name: a, when: {}}]\nrules: [{name: a}]", "there is another" },
	{ "rules: [{name: a, when: {services: [s]}}]",
	  "rules[0] (a): services: there is no service \"s\"" },
	{ "rules: [{name: a, when: {any: [{}, {not: {users: [nobody-of-this-name]}}]}}]",
	  "rules[0] (a).any[1].not[0]: users: there is no user" },
	{ "rules: [{name: a, when: {functions: [b]}}]", "there is no function or rule \"b\"" },
	{ "rules: [{name: a, when: {functions: [a]}}]", "a: refers to itself" },
	{ "rules: [{name: a, when: {functions: [b]}}, {name: b, when: {not: {functions: [a]}}}]",
	  "a: refers to itself" },
	{ "rules: [{name: a, when: {any: []}}]", "Insufficient entries" },
	{ "rules: [{name: a, when: {load-below: high}}]", "load-below: \"high\" is not a part" },
	{ "rules: [{name: a, when: {peers: [10.0.0.0/33]}}]", "peers: \"10.0.0.0/33\"" },
	{ "rules: [{name: a, when: {time: [noon]}}]", "rules[0] (a): time: \"noon\" is not days" },
	{ "rules: [{name: a, when: {rtt-below: 5}}]", "rtt-below: \"5\" is not a time" },
	{ "rules: [{name: a, when: {rtt-at-least: 2h}}]", "rtt-at-least: \"2h\" is not within" },
	{ "rules: [{name: a, when: {stream-bytes-below: 0}}]", "stream-bytes-below: \"0\" is not" },
	{ "rules: [{name: a, when: {transactions-per-second-at-least: 1/s}}]", "is not a number" },
	{ "rules: [{name: a, side: left}]", "Invalid ENUM value: left" },
	{ "rules: [{name: a, map: {group: g}}]", "no RNIC is in a group \"g\"" },
	{ "rules: [{name: a, map: {priority: 8}}]", "map.priority: \"8\" is not within 0 and 7" },
	{ "rules: [{name: a, map: {redirect: 10.0.0.1}}]", "map.redirect: only alone" },
};

Test(conf_errors, what_is_wrong_is_said)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rsk_conf *c = NULL;
		char error[512] = "";
		int rc = rsk_conf_parse(bad[i].text, strlen(bad[i].text), &c, error, sizeof(error));

		cr_expect_eq(rc, -EINVAL, "%s: %d", bad[i].text, rc);
		cr_expect_null(c);
		cr_expect(strstr(error, bad[i].error), "%s: \"%s\", not \"%s\"", bad[i].text, error,
			  bad[i].error);
	}
}

/*
 * References that double with each line: the text stays small, and evaluating it would never end.
 */
Test(conf_errors, references_are_bounded)
{
	char text[8192], error[512];
	struct rsk_conf *c = NULL;
	size_t n = (size_t)snprintf(text, sizeof(text), "functions:\n- {name: f0, when: {}}\n");

	for (int i = 1; i < 40; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "- {name: f%d, when: {functions: [f%d, f%d]}}\n", i, i - 1,
				      i - 1);
	cr_assert_eq(rsk_conf_parse(text, n, &c, error, sizeof(error)), -EINVAL);
	cr_assert(strstr(error, "more than 65536 conditions"), "%s", error);

	n = (size_t)snprintf(text, sizeof(text), "rules: [{name: a, when: ");
	for (int i = 0; i < 100; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "{not: ");
	cr_assert_eq(rsk_conf_parse(text, n, &c, error, sizeof(error)), -EINVAL);
	cr_assert(strstr(error, "nested too deeply"), "%s", error);
}

/* A chain of references, each function before those that it refers to, or after them. */
static int chain(int length, bool leaf_first, char *error, size_t room)
{
	char text[32768];
	struct rsk_conf *c = NULL;
	size_t n = (size_t)snprintf(text, sizeof(text), "functions:\n- {name: f0, when: {}}\n");
	int rc;

	for (int i = 1; i < length; i++) {
		int k = leaf_first ? i : length - i;

		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "- {name: f%d, when: {functions: [f%d]}}\n", k, k - 1);
	}
	rc = rsk_conf_parse(text, n, &c, error, room);
	if (rc == 0)
		cr_assert(rsk_conf_validate(c));
	rsk_conf_free(c);
	return rc;
}

/* A decision evaluates them by recursion: their order in the text does not matter. */
Test(conf_errors, references_are_bounded_in_depth)
{
	char error[512];

	for (int order = 0; order < 2; order++) {
		cr_expect_eq(chain(256, order, error, sizeof(error)), 0, "%s", error);
		cr_expect_eq(chain(257, order, error, sizeof(error)), -EINVAL, "order %d", order);
		cr_expect(strstr(error, "more than 256 references deep"), "%s", error);
	}
}
