// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_conf.c - tests rsockd's configuration: what each key becomes, and that the manual has it.
 */
#include "conf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf_value.h"

static struct rsk_conf *good(const char *text)
{
	struct rsk_conf *c = NULL;
	char error[512];
	int rc = rsk_conf_parse(text, strlen(text), &c, error, sizeof(error));

	cr_assert_eq(rc, 0, "%s", error);
	cr_assert(rsk_conf_validate(c));
	return c;
}

static const char whole[] =
	"node: host-a\n"
	"user: rsockd\n"
	"state: /srv/rsockd\n"
	"control: /run/r/c.sock\n"
	"listen: ['127.0.0.1:4000', '[::1]:4000']\n"
	"metrics: 127.0.0.1:9390\n"
	"rdma-ports: 50000-50099\n"
	"watch-devices: no\n"
	"discover-devices: yes\n"
	"soft-rdma: use\n"
	"pmsp: {max-open: 1000, accept-time: 8s, ask-time: 500ms, resend-time: 2s, resends: 3,\n"
	"       rate: 0, burst: 7}\n"
	"client: {central: '10.0.0.9:3935', max-open: 9, max-sends: 4, linger-time: 1min,\n"
	"         refused-time: 3s, silent-time: 1h, rto-first: 100ms, rto-least: 10ms,\n"
	"         rto-most: 1.5s, max-services: 5, max-hosts: 6, rtt-time: 2s}\n"
	"pma: {listen: ['10.0.0.8:3936'], allow: [10.0.0.0/8, 'fd00::/8'], "
	"central: '10.0.0.9:3936',\n"
	"      mode: central, if-silent: local, timeout: 400ms, report-time: 2s, "
	"max-questions: 7,\n"
	"      max-idle: 8, lost-after: 9s, lease-time: 1min, max-nodes: 11, max-leases: 12}\n"
	"cluster: {etcd: ['https://10.0.0.7:2379', 'https://[fd00::7]:1', 'https://etcd-1.x:2'],\n"
	"          prefix: /rsock/prod, user: rsock, password-file: /etc/p, timeout: 3s,\n"
	"          lease: 20s, expire: 2h, history: 9, redirect: yes, address: 10.0.0.7,\n"
	"          ledger: {hold: 90s},\n"
	"          tls: {ca: /etc/ca, certificate: /etc/c, key: /etc/k}}\n"
	"limits: {sessions: 100, per-cp: 10, per-user: 5}\n"
	"overload: {load: 2, device-load: 90%, refuse-below-priority: 3, rate: 10Mbit}\n"
	"rnics:\n"
	"  - name: mlx0\n"
	"    sessions: 64\n"
	"    connections: 32\n"
	"    memory-maps: 4096\n"
	"    qos: high\n"
	"    group: fast\n"
	"    ports:\n"
	"      - {name: '1', addresses: [10.1.0.1, 'fd00::1'], reach: [10.1.0.0/16], "
	"bandwidth: 25Gbit}\n"
	"      - {name: '2', addresses: [10.2.0.1], bandwidth: 1.5Gbit}\n"
	"  - {name: spare0, node: host-b, addresses: [10.1.0.2], role: spare, order: 3,\n"
	"     qos: best-effort}\n"
	"aggregates:\n"
	"  - {address: 10.9.0.1, over: [mlx0, spare0]}\n"
	"  - {address: 10.9.0.2, over: [spare0, mlx0/2], choose: order}\n"
	"services:\n"
	"  - {name: web, ports: ['80', 8000-8001], bandwidth: 100Mbit, memory-maps: 4,\n"
	"     connections: 2, priority: 7, rdma-port: 18515, pm-time: 30s, dscp: 46, rate: 1Gbit,\n"
	"     transactions-wanted: 2000, transactions-of: ['7', root],\n"
	"     limits: {sessions: 9, per-cp: 3, per-user: 2}, "
	"high-availability: true, balance: yes}\n"
	"  - {name: bulk, ports: ['873'], pm-time: lasting}\n"
	"functions:\n"
	"  - name: trusted\n"
	"    when: {any: [{peers: [10.0.0.0/8]}, {users: ['0', root]}], all: [{}]}\n"
	"rules:\n"
	"  - name: web\n"
	"    side: ap\n"
	"    when: {services: [web], functions: [trusted], bandwidth-fits: true, load-below: 80%}\n"
	"    map: {pm-time: 0, priority: 5, group: fast}\n"
	"  - name: else\n"
	"    when: {not: {functions: [web]}, sessions-below: 5, device-sessions-below: 6,\n"
	"           device-load-below: 0.25, bandwidth-free: 1Gbit, "
	"local: ['fd00::/64'], ports: [1-99],\n"
	"           time: ['mon-fri 08:00-18:00', sun], transactions-per-second-below: 1000,\n"
	"           transactions-per-second-at-least: 2, rtt-below: 300us, rtt-at-least: 1us,\n"
	"           stream-bytes-below: 1000000, stream-bytes-at-least: 4096}\n"
	"  - {name: away, side: ap, map: {redirect: 10.0.0.7}}\n";

Test(conf, daemon)
{
	struct rsk_conf *c = good(whole);
	const struct rsk_conf_daemon *d = &c->daemon;

	cr_assert_str_eq(d->node, "host-a");
	cr_assert_str_eq(d->user, "rsockd");
	cr_assert_str_eq(d->state, "/srv/rsockd");
	cr_assert_str_eq(d->control, "/run/r/c.sock");
	cr_assert_eq(d->n_listen, 2);
	cr_assert(d->listen[0].port == 4000 && d->listen[0].ipv == 4 && d->listen[0].ip[0] == 127);
	cr_assert(d->listen[1].ipv == 6 && d->listen[1].ip[15] == 1);
	cr_assert_eq(d->metrics.port, 9390);
	cr_assert_not(d->watch_devices || d->discover);
	cr_assert(c->use_soft);
	cr_assert(d->rdma_ports.first == 50000 && d->rdma_ports.last == 50099);
	cr_assert_eq(d->pmsp.max_open, 1000);
	cr_assert_eq(d->pmsp.accept_ns, 8000000000);
	cr_assert_eq(d->pmsp.ask_ns, 500000000);
	cr_assert_eq(d->pmsp.resend_ns, 2000000000);
	cr_assert(d->pmsp.resends == 3 && d->pmsp.rate_per_s == 0 && d->pmsp.burst == 7);
	cr_assert(d->central.port == 3935 && d->central.ip[3] == 9);
	cr_assert(d->client.max_open == 9 && d->client.max_sends == 4);
	cr_assert_eq(d->client.linger_ns, 60000000000);
	cr_assert_eq(d->client.cache.refused_ns, 3000000000);
	cr_assert_eq(d->client.cache.silent_ns, 3600000000000);
	cr_assert_eq(d->client.cache.rtt_ns, 2000000000);
	cr_assert_eq(d->client.cache.rto_first_ns, 100000000);
	cr_assert_eq(d->client.cache.rto_least_ns, 10000000);
	cr_assert_eq(d->client.cache.rto_most_ns, 1500000000);
	cr_assert(d->client.cache.max_services == 5 && d->client.cache.max_hosts == 6);
	cr_assert(d->pma.n_listen == 1 && d->pma.listen[0].port == 3936 && d->pma.n_allow == 2);
	cr_assert(d->pma.central.ip[3] == 9 && d->pma.mode == RSK_CONF_PMA_CENTRAL);
	cr_assert(d->pma.local_if_silent);
	cr_assert(d->pma.ask.timeout_ns == 400000000 && d->pma.ask.report_ns == 2000000000);
	cr_assert(d->pma.ask.max_questions == 7 && d->pma.ask.max_idle == 8);
	cr_assert(d->pma.central_agent.lost_ns == 9000000000 &&
		  d->pma.central_agent.lease_ns == 60000000000);
	cr_assert(d->pma.central_agent.max_nodes == 11 && d->pma.central_agent.max_leases == 12);
	cr_assert(c->overload.load == 2 && c->overload.device_load == 0.9);
	cr_assert(c->overload.refuse_below == 3 && c->overload.rate_bps == 10000000);
	cr_assert(c->limits.sessions == 100 && c->limits.per_cp == 10 && c->limits.per_user == 5);
	rsk_conf_free(c);
}

Test(conf, devices)
{
	static const uint8_t a[16] = { 10, 2, 0, 1 }, b[16] = { 10, 9, 0, 2 }, no[16] = { 1 };
	struct rsk_conf *c = good(whole);
	const struct rsk_conf_rnic *r = c->rnics;
	uint32_t n;

	cr_assert(c->n_rnics == 2 && c->n_ports == 3 && c->n_nodes == 2 && c->own_node == 0);
	cr_assert(r[0].sessions == 64 && r[0].connections == 32 && r[0].memory_maps == 4096);
	cr_assert(r[0].qos == RSK_CONF_QOS_HIGH && !r[0].spare && r[0].group == 0);
	cr_assert(r[1].qos == RSK_CONF_QOS_BEST_EFFORT && r[1].spare && r[1].order == 3);
	cr_assert(r[1].node == 1 && r[1].group == RSK_CONF_NONE && r[1].sessions == 0);
	cr_assert_str_eq(c->ports[0].name, "mlx0/1");
	cr_assert_str_eq(c->ports[1].name, "mlx0/2");
	cr_assert_str_eq(c->ports[2].name, "spare0");
	cr_assert(c->ports[0].n_ips == 2 && c->ports[0].n_reach == 1);
	cr_assert(c->ports[0].reach[0].bits == 16 && c->ports[0].bps == 25000000000);
	cr_assert(c->ports[1].bps == 1500000000 && c->ports[2].bps == 0);
	cr_assert(c->nodes[0].n_ports == 2 && c->nodes[1].n_ports == 1);
	cr_assert(c->nodes[1].ports[0] == 2);
	cr_assert(c->n_aggregates == 2 && c->aggregates[0].n_ports == 3);
	cr_assert(!c->aggregates[0].in_order && c->aggregates[1].in_order);
	cr_assert(c->aggregates[1].ports[0] == 2 && c->aggregates[1].ports[1] == 1);
	cr_assert(rsk_conf_owner_of(c, 4, a, &n) == RSK_CONF_PORTS_OWN && n == 1);
	cr_assert(rsk_conf_owner_of(c, 4, b, &n) == RSK_CONF_AGGREGATES && n == 1);
	cr_assert_eq(rsk_conf_owner_of(c, 4, no, &n), RSK_CONF_NOBODYS);
	cr_assert_eq(rsk_conf_owner_of(c, 6, a, &n), RSK_CONF_NOBODYS);
	rsk_conf_free(c);
}

Test(conf, services_and_rules)
{
	struct rsk_conf *c = good(whole);
	const struct rsk_conf_service *s = c->services;

	cr_assert_eq(c->n_services, 2);
	cr_assert(s[0].bps == 100000000 && s[0].memory_maps == 4 && s[0].connections == 2);
	cr_assert(s[0].priority == 7 && s[0].rdma_port == 18515 && s[0].pm_time_s == 30);
	cr_assert(s[0].dscp == 46 && s[0].rate_bps == 1000000000);
	cr_assert(s[0].transactions_wanted == 2000 && s[0].n_transactions_of == 2);
	cr_assert(s[0].transactions_of[0] == 7 && s[0].transactions_of[1] == 0);
	cr_assert(s[0].limits.sessions == 9 && s[0].limits.per_cp == 3);
	cr_assert(s[0].limits.per_user == 2 && s[0].high_availability && s[0].balance);
	cr_assert(s[1].connections == 1 && s[1].pm_time_s == RSK_PM_TIME_LASTING);
	cr_assert(c->service_at[80] == 1 && c->service_at[8000] == 1 && c->service_at[8001] == 1);
	cr_assert(c->service_at[873] == 2 && c->service_at[81] == 0);
	cr_assert(c->n_functions == 4 && c->n_rules == 3);
	cr_assert_eq(rsk_conf_find(c, RSK_CONF_FUNCTIONS, "else"), 2);
	cr_assert(c->functions[1].cost > c->functions[0].cost && c->functions[2].depth >= 1);
	cr_assert(c->rules[0].sides == RSK_CONF_SIDE_AP && c->rules[0].pm_time_s == 0);
	cr_assert(c->rules[0].priority == 5 && c->rules[0].group == 0);
	cr_assert(c->rules[1].sides == (RSK_CONF_SIDE_AP | RSK_CONF_SIDE_CP));
	cr_assert(c->rules[1].pm_time_s == -1 && c->rules[1].group == RSK_CONF_NONE);
	cr_assert(c->rules[1].redirect.ipv == 0 && c->rules[2].redirect.ip[3] == 7);
	rsk_conf_free(c);
}

Test(conf, nothing_given)
{
	static const struct rsk_pmsp_config pmsp = RSK_PMSP_DEFAULT;
	static const struct rsk_pm_client_config client = RSK_PM_CLIENT_DEFAULT;
	struct rsk_conf *c;

	cr_assert_eq(rsk_conf_default(&c), 0);
	cr_assert(rsk_conf_validate(c));
	cr_assert_str_eq(c->daemon.control, "/run/rsockd/control.sock");
	cr_assert_str_eq(c->daemon.local, "/run/rsock/local.sock");
	cr_assert(c->daemon.between_namespaces);
	cr_assert_str_eq(c->daemon.state, "/var/lib/rsockd");
	cr_assert(!c->daemon.user && !c->daemon.metrics.port && !c->daemon.central.port);
	cr_assert(c->daemon.n_listen == 2 && c->daemon.listen[0].port == 3935);
	cr_assert(c->daemon.listen[0].ipv == 4 && c->daemon.listen[1].ipv == 6);
	cr_assert(c->daemon.pmsp.max_open == pmsp.max_open && c->daemon.pmsp.burst == pmsp.burst);
	cr_assert(c->daemon.pmsp.accept_ns == pmsp.accept_ns);
	cr_assert(c->daemon.pmsp.rate_per_s == pmsp.rate_per_s);
	cr_assert_eq(c->daemon.client.max_open, client.max_open);
	cr_assert_eq(c->daemon.client.cache.silent_ns, client.cache.silent_ns);
	cr_assert_eq(c->daemon.watch_devices, RSK_CONF_WATCH_YES);
	cr_assert(c->n_rnics == 0 && c->n_services == 0 && c->n_rules == 1);
	rsk_conf_free(c);
	rsk_conf_free(good("# nothing but a comment\n"));
	c = good("watch-devices: rdma\n");
	cr_assert_eq(c->daemon.watch_devices, RSK_CONF_WATCH_RDMA);
	rsk_conf_free(c);
	rsk_conf_free(NULL);
}

Test(conf, file)
{
	char path[] = "/tmp/rsock-conf-XXXXXX", error[512];
	struct rsk_conf *c;
	int fd = mkstemp(path);

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, "node: a\nnod: b\n", 15), 15);
	cr_assert_eq(rsk_conf_load(path, &c, error, sizeof(error)), -EINVAL);
	cr_assert(strncmp(error, path, strlen(path)) == 0 && strstr(error, "line: 1"), "%s", error);
	cr_assert_eq(ftruncate(fd, 8), 0);
	cr_assert_eq(rsk_conf_load(path, &c, error, sizeof(error)), 0, "%s", error);
	cr_assert_str_eq(c->daemon.node, "a");
	rsk_conf_free(c);
	close(fd);
	unlink(path);
	cr_assert_eq(rsk_conf_load(path, &c, error, sizeof(error)), -ENOENT);
	cr_assert(strstr(error, "No such file"), "%s", error);
	cr_assert_eq(rsk_conf_load("/tmp", &c, error, sizeof(error)), -EISDIR);
}

/* The example in rsockd.conf(5), as a reader copies it. */
Test(conf, example_of_the_man_page)
{
	char line[256], text[8192] = "";
	bool in = false;
	size_t n = 0;
	const char *path = getenv("RSOCKD_CONF_5");
	FILE *f = path ? fopen(path, "r") : NULL;
	struct rsk_conf *c;

	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, ".Ed", 3) == 0)
			in = false;
		if (in)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", line);
		if (strncmp(line, ".Bd -literal", 12) == 0)
			in = true;
	}
	fclose(f);
	c = good(text);
	cr_assert(c->n_rnics == 3 && c->n_aggregates == 1 && c->n_services == 2 && c->n_rules == 3);
	rsk_conf_free(c);
}

/* Every key of the text above, which uses all of them, is in the man page. */
/* The text of rsockd.conf(5). */
static const char *manual(void)
{
	static char text[1 << 18];
	FILE *f = fopen(getenv("RSOCKD_CONF_5"), "r");
	size_t n;

	cr_assert_not_null(f);
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	cr_assert(n > 0 && n < sizeof(text));
	return text;
}

/*
 * Writes, as YAML, the keys of the section @name, whose list begins at @list, each with the default
 * that the manual states: ".It Ic KEY , KEY" and "default VALUE and VALUE". Returns how many.
 */
static unsigned int defaults_in(const char *name, const char *list, char *out, size_t room)
{
	static const char item[] = "\n.It Ic ";
	const char *end = strstr(list, "\n.El"), *key = strstr(list, item), *next, *value;
	size_t at = (size_t)snprintf(out, room, "%s: {", name);
	unsigned int n = 0;

	for (; key && key < end; key = next) {
		key += strlen(item);
		next = strstr(key, item);
		value = strstr(key, "default ");
		if (!value || value > end || (next && value > next))
			continue;
		value += strlen("default ");
		for (;;) {
			size_t k = strcspn(key, " \n"), v = strcspn(value, " ,.;\n");

			at += (size_t)snprintf(out + at, room - at, "%s%.*s: %.*s", n ? ", " : "",
					       (int)k, key, (int)v, value);
			cr_assert_lt(at, room);
			n++;
			if (strncmp(key + k, " , ", 3) != 0)
				break;
			key += k + 3;
			value += v + strspn(value + v, " ,");
			value += strncmp(value, "and ", 4) == 0 ? 4 : 0;
		}
	}
	at += (size_t)snprintf(out + at, room - at, "}\n");
	cr_assert_lt(at, room);
	return n;
}

static void are_same(const struct rsk_conf_daemon *a, const struct rsk_conf_daemon *b)
{
	const struct rsk_pm_cache_config *x = &a->client.cache, *y = &b->client.cache;

	cr_expect_eq(a->pmsp.max_open, b->pmsp.max_open);
	cr_expect_eq(a->pmsp.accept_ns, b->pmsp.accept_ns);
	cr_expect_eq(a->pmsp.ask_ns, b->pmsp.ask_ns);
	cr_expect_eq(a->pmsp.resend_ns, b->pmsp.resend_ns);
	cr_expect_eq(a->pmsp.resends, b->pmsp.resends);
	cr_expect_eq(a->pmsp.rate_per_s, b->pmsp.rate_per_s);
	cr_expect_eq(a->pmsp.burst, b->pmsp.burst);
	cr_expect_eq(a->client.max_open, b->client.max_open);
	cr_expect_eq(a->client.max_sends, b->client.max_sends);
	cr_expect_eq(a->client.linger_ns, b->client.linger_ns);
	cr_expect(x->max_services == y->max_services && x->max_hosts == y->max_hosts);
	cr_expect(x->refused_ns == y->refused_ns && x->silent_ns == y->silent_ns);
	cr_expect_eq(x->rtt_ns, y->rtt_ns);
	cr_expect_eq(x->rto_first_ns, y->rto_first_ns);
	cr_expect(x->rto_least_ns == y->rto_least_ns && x->rto_most_ns == y->rto_most_ns);
}

/* With what the manual states as defaults, the machines are configured as with nothing. */
Test(conf, defaults_are_those_of_the_man_page)
{
	char text[1024];
	const char *man = manual();
	const char *pmsp = strstr(man, "\n.Ic pmsp\nconfigures");
	const char *client = strstr(man, "\n.Ic client\nconfigures");
	struct rsk_conf *stated, *nothing;
	size_t at;

	cr_assert(pmsp && client);
	cr_assert_eq(defaults_in("pmsp", pmsp, text, sizeof(text)), 7, "%s", text);
	at = strlen(text);
	cr_assert_eq(defaults_in("client", client, text + at, sizeof(text) - at), 11, "%s", text);
	stated = good(text);
	cr_assert_eq(rsk_conf_default(&nothing), 0);
	are_same(&stated->daemon, &nothing->daemon);
	rsk_conf_free(stated);
	rsk_conf_free(nothing);
	/* PmTime. */
	cr_expect(strstr(man, "\n.Ql 0\n(default): for one transaction only"));
	stated = good("services: [{name: s, ports: ['1']}]\n");
	cr_expect_eq(stated->services[0].pm_time_s, 0);
	rsk_conf_free(stated);
}

Test(conf, keys_are_in_the_man_page)
{
	char word[64], line[256];
	size_t n, keys = 0;

	for (const char *p = whole; *p; p += n ? n : 1) {
		FILE *f;
		bool found = false;

		n = strspn(p, "abcdefghijklmnopqrstuvwxyz-");
		if (!n || n >= sizeof(word) || p[n] != ':' || !strchr(" \n", p[n + 1]))
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)n, p);
		f = fopen(getenv("RSOCKD_CONF_5"), "r");
		cr_assert_not_null(f);
		while (!found && fgets(line, sizeof(line), f)) {
			const char *at = strstr(line, word);

			found = at && at > line && strchr(" ", at[-1]) && strchr(" ,\n", at[n]) &&
				strstr(line, ".I");
		}
		fclose(f);
		cr_expect(found, "%s is not in rsockd.conf(5)", word);
		keys++;
	}
	cr_assert_gt(keys, 70);
}

static unsigned int minutes_of(const char *text, unsigned int first, unsigned int last)
{
	uint8_t week[RSK_CONF_WEEK_BYTES] = { 0 };
	unsigned int n = 0;

	if (rsk_conf_week(text, week) < 0)
		return 0;
	for (unsigned int i = 0; i < RSK_CONF_WEEK_MINUTES; i++)
		n += week[i / 8] >> i % 8 & 1;
	cr_expect(week[first / 8] >> first % 8 & 1, "%s: %u", text, first);
	cr_expect(week[last / 8] >> last % 8 & 1, "%s: %u", text, last);
	return n;
}

Test(conf, times_of_the_week)
{
	static const char *const wrong[] = { "",
					     "mo",
					     "monday",
					     "mon-",
					     "mon-fri-",
					     "8:00",
					     "8:00-",
					     "8-9",
					     "8:00-9:60",
					     "8:00-24:01",
					     "24:00-08:00",
					     "8:00-8:00",
					     "Mon",
					     "mon08:00-9:00",
					     "mon 8:00-9:00 ",
					     "8:0-9:00",
					     "mon,tue",
					     "8:00 - 9:00",
					     "008:00-9:00",
					     "mon  x" };
	const unsigned int day = 24 * 60;

	cr_assert_eq(minutes_of("mon-fri 08:00-18:00", 8 * 60, 4 * day + 18 * 60 - 1), 5 * 600);
	cr_assert_eq(minutes_of("sat", 5 * day, 6 * day - 1), day);
	cr_assert_eq(minutes_of("mon-sun", 0, 7 * day - 1), 7 * day);
	cr_assert_eq(minutes_of("sat-mon", 5 * day, day - 1), 3 * day);
	cr_assert_eq(minutes_of("22:00-06:00", 0, 22 * 60), 7 * 8 * 60);
	cr_assert_eq(minutes_of("sun 23:59-00:01", 7 * day - 1, 0), 2);
	cr_assert_eq(minutes_of("0:00-24:00", 0, 7 * day - 1), 7 * day);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(minutes_of(wrong[i], 0, 0), 0, "%s", wrong[i]);
}

Test(conf, values)
{
	static const uint8_t in[16] = { 10, 1, 128 }, out[16] = { 10, 1, 64 };
	struct rsk_conf_prefix p;
	uint64_t v = 77;
	double part;

	cr_assert(rsk_conf_time("250us", &v) == 0 && v == 250000);
	cr_assert(rsk_conf_time("1.5 min", &v) == 0 && v == 90000000000);
	cr_assert(rsk_conf_time("10", &v) == -EINVAL && v == 90000000000);
	cr_assert_eq(rsk_conf_time("1e3s", &v), -EINVAL);
	cr_assert_eq(rsk_conf_time("99999999999h", &v), -EINVAL);
	cr_assert_eq(rsk_conf_time("", &v), -EINVAL);
	cr_assert_eq(rsk_conf_time("1.s", &v), -EINVAL);
	cr_assert(rsk_conf_rate("2.5kbit", &v) == 0 && v == 2500);
	cr_assert_eq(rsk_conf_rate("1Gb", &v), -EINVAL);
	cr_assert(rsk_conf_part("12.5%", &part) == 0 && part == 0.125);
	cr_assert_eq(rsk_conf_part("-1", &part), -EINVAL);
	cr_assert_eq(rsk_conf_number("1x", &v), -EINVAL);
	cr_assert_eq(rsk_conf_number("", &v), -EINVAL);
	cr_assert_eq(rsk_conf_prefix("10.1.128.0/17", &p), 0);
	cr_assert(rsk_conf_within(&p, 4, in) && !rsk_conf_within(&p, 4, out));
	cr_assert(!rsk_conf_within(&p, 6, in));
	cr_assert_eq(rsk_conf_prefix("0.0.0.0/0", &p), 0);
	cr_assert(rsk_conf_within(&p, 4, out) && !rsk_conf_within(&p, 6, out));
	cr_assert_eq(rsk_conf_prefix("10.1.128.0/16", &p), -EINVAL);
}
