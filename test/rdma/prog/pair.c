// SPDX-License-Identifier: BSD-2-Clause
/*
 * pair.c - bin/verbs_pair, the program of rdma_verbs.py: both ends of rails by librsock-verbs.so,
 * on two hosts or one.
 *
 *	verbs_pair server TCP_PORT
 *	verbs_pair client HOST TCP_PORT [mode=M] [streams=N] [threads=N] [seconds=N]
 *		   [rounds=N] [way=d|i|s] [largest=BYTES] [ping=1] [from=ADDRESS]
 *		   [bytes=N] [timer_ms=N] [methods=tda] [fail=PERCENT] [dice=N]
 *
 * Modes:
 *	traffic   sends slots both ways for that time and checks them; rounds: the rail is
 *		  broken and connected again in between
 *	rkey	  two rails; the client has a wrong key for the rings of the first one: that
 *		  rail breaks, the other does not
 *	hold	  traffic until a program is killed or the network fails: the one that is left
 *		  says why and ends; it sends probes
 *	fork	  as hold; the client also has a child, which calls the module's forked() and
 *		  outlives the client
 *	read	  RDMA READs of the peer's control words
 *	mailboxes each end obtains by READ messages that the other end's threads change all
 *		  the time (mailboxes.c)
 *	locked	  locked accesses of several initiators to one record, over both links
 *		  (locked.c)
 *	transfer  transfers of so many bytes by several methods in turn (transfer.c): rounds
 *		  of each, for that time at the most
 *	hostile   two rails; on the first one the client does what is forbidden, one deed a
 *		  round
 *	flood	  two rails; the client sends notices by the first one that the server does
 *		  not take, and then one by the second rail
 *
 * The main thread does what the progress thread does in librsock. What both ends must know goes
 * over TCP, one message each way at a time. The program prints one line of JSON at the end; its
 * exit status is 0 if everything was as it must be.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile.h"
#include "pair.h"

#define FLOOD 8000u /* notices */
#define PATIENCE_S 60

/* Changes the way (direct or indirect) of all streams while they are in use. */
static void switch_ways(struct pair_link *l, uint32_t turn)
{
	for (uint32_t i = 0; i < l->p->plan.streams; i++) {
		enum rsk_verbs_way way = (turn + i) % 3 ? RSK_VERBS_DIRECT : RSK_VERBS_INDIRECT;

		if (pair_theirs.ring[i] && l->p->m->set_ring(l->rail, i, way, pair_theirs.ring[i],
							     l->seg.peer.ring_bytes) < 0)
			PAIR_FAIL("set_ring while in use");
	}
}

static void run_flows(struct pair *p, uint32_t links)
{
	uint32_t turn = 0;
	bool going = true;

	for (uint32_t i = 0; i < links; i++)
		pair_flow_start(&p->link[i]);
	while (going) {
		pair_keep(p, 20);
		if (p->plan.way == 's')
			switch_ways(&p->link[0], ++turn);
		if (!strcmp(p->plan.mode, "hold"))
			p->m->rail_probe(p->link[0].rail);
		going = false;
		for (uint32_t i = 0; i < links; i++)
			going |= atomic_load(&p->link[i].running) != 0;
	}
	for (uint32_t i = 0; i < links; i++)
		pair_flow_join(&p->link[i]);
}

static void check_all_arrived(struct pair_link *l)
{
	for (uint32_t i = 0; i < l->p->plan.streams; i++)
		if (!l->stream[i].fin_in || !l->stream[i].fin_out)
			PAIR_FAIL("link %u stream %u: in %llu, out %llu, not at its end (%d)",
				  l->number, i, (unsigned long long)l->stream[i].in,
				  (unsigned long long)l->stream[i].out, atomic_load(&l->err));
}

static void traffic(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct pair_link *l = &p->link[0];

	for (uint32_t round = 0; round < p->plan.rounds; round++) {
		pair_bring_up(l, from);
		run_flows(p, 1);
		check_all_arrived(l);
		if (p->m->rail_settle(l->rail, 10000000000ull))
			PAIR_FAIL("settle");
		pair_rendezvous(p, 'e');
		/* The client breaks the rail; the server's module must report it. */
		if (!p->server)
			p->m->rail_break(l->rail);
		else
			pair_keep_until(p, &l->downs, (int)round + 1, "down()");
		pair_rendezvous(p, 'b');
	}
}

static void rkey(struct pair *p, const struct rsk_verbs_addr *from)
{
	for (uint32_t i = 0; i < 2; i++)
		pair_bring_up(&p->link[i], from);
	if (!p->server)
		for (uint32_t i = 0; i < p->plan.streams; i++)
			p->m->set_ring(p->link[0].rail, i, RSK_VERBS_DIRECT, 0x12345678,
				       p->link[0].seg.peer.ring_bytes);
	pair_rendezvous(p, 'k');
	run_flows(p, 2);
	check_all_arrived(&p->link[1]);
	pair_keep_until(p, &p->link[0].downs, 1, "down() of the link with wrong keys");
	if (atomic_load(&p->link[1].downs))
		PAIR_FAIL("the other link broke");
	pair_rendezvous(p, 'e');
}

/* Brings up the client's end of the first link without librsock-verbs.so. */
static struct hostile *bring_up_hostile(struct pair_link *l, struct hostile_target *t)
{
	uint8_t hello[2] = { 'v', (uint8_t)l->number };
	struct pair *p = l->p;
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	struct hostile *h;

	if (getpeername(p->tcp, (struct sockaddr *)&at, &n))
		PAIR_FAIL("getpeername: %s", strerror(errno));
	/* sin6_port of an IPv6 address is at the same place */
	((struct sockaddr_in *)&at)->sin_port = htons(p->port);
	h = hostile_connect((struct sockaddr *)&at, hello, sizeof(hello));
	memset(&pair_ours, 0, sizeof(pair_ours));
	for (uint32_t i = 0; i < p->plan.streams; i++)
		pair_ours.way[i] = RSK_VERBS_DIRECT;
	pair_tell(p, &pair_ours, sizeof(pair_ours));
	pair_hear(p, &pair_theirs, sizeof(pair_theirs));
	*t = (struct hostile_target){ .segment = pair_theirs.end.segment,
				      .indirect = pair_theirs.end.indirect,
				      .indirect_rkey = pair_theirs.end.indirect_rkey,
				      .ring_off = rsk_seg_ring_off(&l->seg.peer, 0),
				      .ring_bytes = PAIR_RING,
				      .ring_rkey = pair_theirs.ring[0],
				      .ctl_off = rsk_seg_ctl_off(0),
				      .ctl_rkey = pair_theirs.ctl[0] };
	pair_rendezvous(p, 'u');
	return h;
}

static void hostile(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct pair_link *bad = &p->link[0], *good = &p->link[1];
	struct hostile_target target;
	struct hostile *h = NULL;

	for (uint32_t round = 0; round < hostile_deeds(); round++) {
		if (p->server)
			pair_bring_up(bad, from);
		else
			h = bring_up_hostile(bad, &target);
		pair_bring_up(good, from);
		target.other.segment = pair_theirs.end.segment;
		target.other.indirect = pair_theirs.end.indirect;
		target.other.indirect_rkey = pair_theirs.end.indirect_rkey;
		target.other.ring_rkey = pair_theirs.ring[0];
		target.other.ctl_rkey = pair_theirs.ctl[0];
		pair_flow_start(good);
		if (!p->server)
			fprintf(stderr, "%s\n", hostile_do(h, round, &target));
		else
			pair_keep_until(p, &bad->downs, (int)round + 1,
					"down() of the hostile link");
		while (atomic_load(&good->running))
			pair_keep(p, 20);
		pair_flow_join(good);
		check_all_arrived(good);
		if (atomic_load(&good->downs) != (p->server ? (int)round : 0))
			PAIR_FAIL("the other link broke");
		pair_rendezvous(p, 'e');
		if (!p->server) {
			p->m->rail_break(good->rail);
			hostile_free(h);
		} else {
			pair_keep_until(p, &good->downs, (int)round + 1, "down()");
			fprintf(stderr, "round %u: %s\n", round, strerror(-atomic_load(&bad->err)));
		}
		pair_rendezvous(p, 'b');
	}
}

/*
 * Neither the server's threads nor its main thread take anything until the client has seen the
 * effect of its flood.
 */
static void flood(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct hostile_target target;
	struct hostile *h[2] = { NULL, NULL };
	uint32_t taken;

	for (uint32_t i = 0; i < 2; i++) {
		if (p->server)
			pair_bring_up(&p->link[i], from);
		else
			h[i] = bring_up_hostile(&p->link[i], &target);
	}
	pair_rendezvous(p, 'f');
	if (p->server) {
		pair_rendezvous(p, 't');
		pair_keep_until(p, &p->link[0].downs, 1, "down() of the one that has flooded");
		if (atomic_load(&p->link[1].downs))
			PAIR_FAIL("the other one broke");
		pair_rendezvous(p, 'e');
		pair_keep_until(p, &p->link[1].downs, 1, "down()");
		return;
	}
	taken = hostile_flood(h[0], FLOOD);
	printf("{\"flood\": %u}\n", taken);
	if (taken >= FLOOD)
		PAIR_FAIL("no end of receives for one that floods");
	if (!hostile_notice(h[1], PATIENCE_S))
		PAIR_FAIL("no receive is left for the other one");
	/* When the server takes the notices, the flood goes on, but not for ever. */
	pair_rendezvous(p, 't');
	if (!hostile_taken(h[0], PATIENCE_S))
		PAIR_FAIL("it stands still though all is taken");
	hostile_end(h[0]);
	pair_rendezvous(p, 'e');
	for (uint32_t i = 0; i < 2; i++)
		hostile_free(h[i]);
}

static void hold(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct pair_link *l = &p->link[0];
	uint64_t begun;

	pair_bring_up(l, from);
	if (!strcmp(p->plan.mode, "fork") && !p->server) { /* before there are threads */
		pid_t pid = fork();

		if (pid < 0)
			PAIR_FAIL("fork: %s", strerror(errno));
		if (pid == 0) {
			p->m->forked(p->v);
			close(p->tcp);
			printf("child %d\n", getpid());
			fflush(stdout);
			for (;;)
				pause();
		}
	}
	printf("held\n");
	fflush(stdout);
	begun = rsk_monotonic_ns();
	run_flows(p, 1);
	pair_keep_until(p, &l->downs, 1, "down()");
	printf("{\"down\": %d, \"after_ms\": %llu}\n", -atomic_load(&l->err),
	       (unsigned long long)(rsk_monotonic_ns() - begun) / 1000000);
}

static void read_words(struct pair *p, const struct rsk_verbs_addr *from)
{
	struct pair_link *l = &p->link[0];
	const struct rsk_fabric_ops *ops;

	pair_bring_up(l, from);
	ops = l->seg.rail.ops;
	for (uint32_t i = 0; i < p->plan.streams; i++) {
		struct rsk_control_word m = { .what = RSK_TX_RING, .gen = 1, .pos = i };

		if (rsk_control_word_put(&l->seg.rail, rsk_seg_ctl_off(i), &l->stream[i].key_out,
					 RSK_CONTROL_WORD_TX, &m) < 0)
			PAIR_FAIL("control word");
		ops->due(&l->seg.rail, i, RSK_WAKE_RX);
	}
	if (p->m->rail_settle(l->rail, 10000000000ull))
		PAIR_FAIL("settle");
	/* Reads back what was put: it lies in the peer's memory. */
	for (uint32_t i = 0; i < p->plan.streams; i++) {
		struct rsk_completion done = { .status = 1 };
		struct rsk_control_word back, m;
		uint64_t until = rsk_monotonic_ns() + 10000000000ull;
		int rc = ops->get(&l->seg.rail, rsk_seg_ctl_off(i), &back, sizeof(back), 77 + i);

		while (rc == 0 && ops->poll(&l->seg.rail, &done, 1) == 0)
			if (rsk_monotonic_ns() > until)
				PAIR_FAIL("no completion of a READ");
		if (rc < 0 || done.status || done.token != 77 + i ||
		    !rsk_control_word_get(&back, &l->stream[i].key_out, RSK_CONTROL_WORD_TX, &m) ||
		    m.pos != i)
			PAIR_FAIL("READ %u: %d, status %d", i, rc, done.status);
	}
	pair_rendezvous(p, 'e');
}

static void report(struct pair *p)
{
	const uint64_t *c = p->counts;
	uint64_t in = 0, out = 0, slots = 0, retries = 0;

	for (uint32_t n = 0; n < PAIR_LINKS; n++)
		for (uint32_t i = 0; i < p->plan.streams; i++) {
			in += p->link[n].stream[i].in;
			out += p->link[n].stream[i].out;
			slots += p->link[n].stream[i].rx.slots;
			retries += p->link[n].stream[i].rx.retries;
		}
	printf("{\"in\": %llu, \"out\": %llu, \"slots\": %llu, \"retries\": %llu, \"slept\": %llu, "
	       "\"late\": %llu",
	       (unsigned long long)in, (unsigned long long)out, (unsigned long long)slots,
	       (unsigned long long)retries, (unsigned long long)p->slept,
	       (unsigned long long)p->woken_late);
#define X(code, name, text)                                                                        \
	printf(", \"" #name "\": %llu", (unsigned long long)c[RSK_STATS_VERBS_##code]);
	RSK_STATS_VERBS(X)
#undef X
	printf("}\n");
	if (p->woken_late)
		PAIR_FAIL("%llu lost wake-ups", (unsigned long long)p->woken_late);
}

static int tcp_to(const char *host, const char *port, bool server)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = server ? AI_PASSIVE : 0,
				  .ai_family = server ? AF_INET6 : AF_UNSPEC },
			*at;
	int rc = getaddrinfo(host, port, &hints, &at), fd, one = 1;

	if (rc)
		PAIR_FAIL("%s: %s", host ? host : "*", gai_strerror(rc));
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (server) {
		int listener = fd;

		if (bind(listener, at->ai_addr, at->ai_addrlen) || listen(listener, 1))
			PAIR_FAIL("listen: %s", strerror(errno));
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		close(listener);
		rc = fd < 0 ? -1 : 0;
	} else {
		rc = connect(fd, at->ai_addr, at->ai_addrlen);
	}
	if (rc)
		PAIR_FAIL("tcp: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(at);
	return fd;
}

static void parse(struct pair_plan *plan, int n, char **arg, struct rsk_verbs_addr *from)
{
	static const struct {
		const char *name;
		size_t at;
	} numbers[] = {
		{ "streams=", offsetof(struct pair_plan, streams) },
		{ "threads=", offsetof(struct pair_plan, threads) },
		{ "seconds=", offsetof(struct pair_plan, seconds) },
		{ "rounds=", offsetof(struct pair_plan, rounds) },
		{ "largest=", offsetof(struct pair_plan, largest) },
		{ "ping=", offsetof(struct pair_plan, ping) },
		{ "bytes=", offsetof(struct pair_plan, bytes) },
		{ "timer_ms=", offsetof(struct pair_plan, timer_ms) },
		{ "fail=", offsetof(struct pair_plan, fail) },
		{ "dice=", offsetof(struct pair_plan, dice) },
	};

	for (int i = 0; i < n; i++) {
		size_t k = 0, count = sizeof(numbers) / sizeof(*numbers);

		while (k < count && strncmp(arg[i], numbers[k].name, strlen(numbers[k].name)))
			k++;
		if (k < count) {
			uint32_t value =
				(uint32_t)strtoul(arg[i] + strlen(numbers[k].name), NULL, 10);

			memcpy((char *)plan + numbers[k].at, &value, sizeof(value));
		} else if (!strncmp(arg[i], "mode=", 5)) {
			snprintf(plan->mode, sizeof(plan->mode), "%s", arg[i] + 5);
		} else if (!strncmp(arg[i], "methods=", 8)) {
			snprintf(plan->methods, sizeof(plan->methods), "%s", arg[i] + 8);
		} else if (!strncmp(arg[i], "way=", 4)) {
			plan->way = arg[i][4];
		} else if (!strncmp(arg[i], "from=", 5)) {
			from->family = strchr(arg[i], ':') ? AF_INET6 : AF_INET;
			if (inet_pton(from->family, arg[i] + 5, from->ip) != 1)
				PAIR_FAIL("%s", arg[i]);
		} else {
			PAIR_FAIL("%s?", arg[i]);
		}
	}
	if (!plan->streams || plan->streams > PAIR_MAX_STREAMS || !plan->threads ||
	    plan->threads > PAIR_MAX_THREADS || !plan->largest ||
	    plan->largest > RSK_SLOT_MAX_PAYLOAD || !plan->bytes || !plan->timer_ms ||
	    strspn(plan->methods, "tda") != strlen(plan->methods))
		PAIR_FAIL("out of bounds");
}

static const struct {
	const char *name;
	void (*run)(struct pair *p, const struct rsk_verbs_addr *from);
} modes[] = {
	{ "traffic", traffic },
	{ "rkey", rkey },
	{ "hold", hold },
	{ "fork", hold },
	{ "read", read_words },
	{ "hostile", hostile },
	{ "flood", flood },
	{ "mailboxes", pair_mailboxes },
	{ "transfer", pair_transfers },
	{ "locked", pair_locked },
};

int main(int argc, char **argv)
{
	static struct pair p;
	struct rsk_verbs_addr from = { .family = 0 };
	size_t mode = 0;

	p.plan = (struct pair_plan){ .streams = 8,
				     .threads = 2,
				     .seconds = 3,
				     .rounds = 1,
				     .largest = 4096,
				     .bytes = 128u << 10,
				     .timer_ms = 200,
				     .methods = "td",
				     .way = 'd',
				     .mode = "traffic" };
	p.server = argc >= 3 && !strcmp(argv[1], "server");
	if (!p.server && (argc < 4 || strcmp(argv[1], "client")))
		PAIR_FAIL("server PORT | client HOST PORT [...]");
	pair_load(&p);
	if (p.server) {
		int port = p.m->listen(p.v, 0);

		if (port <= 0)
			PAIR_FAIL("listen: %d", port);
		p.port = (uint16_t)port;
		p.tcp = tcp_to(NULL, argv[2], true);
		pair_tell(&p, &p.port, sizeof(p.port));
		pair_hear(&p, &p.plan, sizeof(p.plan));
	} else {
		parse(&p.plan, argc - 4, argv + 4, &from);
		p.tcp = tcp_to(argv[2], argv[3], false);
		pair_hear(&p, &p.port, sizeof(p.port));
		pair_tell(&p, &p.plan, sizeof(p.plan));
	}
	for (uint32_t i = 0; i < PAIR_LINKS; i++) {
		p.link[i].p = &p;
		p.link[i].number = i;
		pair_make_segments(&p.link[i]);
	}
	while (mode < sizeof(modes) / sizeof(*modes) && strcmp(modes[mode].name, p.plan.mode))
		mode++;
	if (mode == sizeof(modes) / sizeof(*modes))
		PAIR_FAIL("no mode %s", p.plan.mode);
	modes[mode].run(&p, &from);
	report(&p);
	for (uint32_t i = 0; i < PAIR_LINKS; i++)
		if (p.link[i].rail)
			p.m->rail_free(p.link[i].rail);
	p.m->close(p.v);
	return 0;
}
