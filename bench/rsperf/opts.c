/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opts.c - rsperf's command lines. One row for each option: the commands that know it, its kind of
 * value, where the value goes, and its help text. The parsers check only single values;
 * combinations are checked at the end.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/slot.h>

#include "rsperf.h"

#define RSK_FOR_CLIENT 1u
#define RSK_FOR_SERVER 2u
#define RSK_FOR_LIMIT 4u
#define RSK_FOR_CALLS 8u
#define RSK_FOR_SOCKET (RSK_FOR_CLIENT | RSK_FOR_SERVER)
#define RSK_FOR_LOAD (RSK_FOR_CLIENT | RSK_FOR_LIMIT | RSK_FOR_CALLS)
#define RSK_FOR_ALL (RSK_FOR_SOCKET | RSK_FOR_LOAD)

static const char *const rsk_test_names[] = {
	[RSK_TEST_LAT] = "lat",
	[RSK_TEST_BW] = "bw",
	[RSK_TEST_RATE] = "rate",
	[RSK_TEST_CONN] = "conn",
};
static const char *const rsk_wait_names[] = {
	[RSK_WAIT_RECV] = "recv",
	[RSK_WAIT_POLL] = "poll",
	[RSK_WAIT_SELECT] = "select",
	[RSK_WAIT_EPOLL] = "epoll",
};
static const char *const rsk_limit_names[] = {
	[RSK_LIMIT_CACHELINE] = "cacheline", [RSK_LIMIT_FUTEX] = "futex",
	[RSK_LIMIT_EVENTFD] = "eventfd",     [RSK_LIMIT_EVENTFD_EPOLL] = "eventfd-epoll",
	[RSK_LIMIT_COPY] = "copy",	     [RSK_LIMIT_SLOTS] = "slots",
};
static const char *const rsk_calls_names[] = {
	[RSK_CALLS_UDP] = "udp",
	[RSK_CALLS_LOCAL] = "local",
	[RSK_CALLS_FILE] = "file",
};
static const char *const rsk_flow_names[] = {
	[RSK_FLOW_OUT] = "out",
	[RSK_FLOW_IN] = "in",
	[RSK_FLOW_BOTH] = "both",
};

const char *rsk_test_name(enum rsk_test test)
{
	return rsk_test_names[test];
}

const char *rsk_wait_name(enum rsk_wait_kind kind)
{
	return rsk_wait_names[kind];
}

const char *rsk_limit_name(enum rsk_limit limit)
{
	return rsk_limit_names[limit];
}

const char *rsk_calls_name(enum rsk_calls calls)
{
	return rsk_calls_names[calls];
}

const char *rsk_flow_name(enum rsk_flow flow)
{
	return rsk_flow_names[flow];
}

enum rsk_value {
	RSK_VALUE_FLAG,	  /* bool: set */
	RSK_VALUE_CHOICE, /* int-sized enum: set to the row's constant, once only */
	RSK_VALUE_TEXT,
	RSK_VALUE_BYTES, /* uint64_t, with K, M or G */
	RSK_VALUE_COUNT, /* uint64_t, with K, M or G, not 0 */
	RSK_VALUE_SMALL, /* unsigned int, 1 to RSK_CONNS_MAX */
	RSK_VALUE_SECONDS,
	RSK_VALUE_WAIT,
	RSK_VALUE_PIN,
	RSK_VALUE_HELP,
};

struct rsk_option {
	const char *name;
	int letter; /* 0: none */
	unsigned int commands;
	enum rsk_value value;
	unsigned int offset;
	int constant;
	const char *arg;
	const char *help;
};

#define RSK_AT(field) ((unsigned int)offsetof(struct rsk_opts, field))

static const struct rsk_option rsk_options[] = {
	{ "lat", 0, RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(test), RSK_TEST_LAT, NULL,
	  "round trip time: one message out, the same one back" },
	{ "bw", 0, RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(test), RSK_TEST_BW, NULL,
	  "throughput of a stream" },
	{ "rate", 0, RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(test), RSK_TEST_RATE, NULL,
	  "small messages a second, one way, TCP_NODELAY" },
	{ "conn", 0, RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(test), RSK_TEST_CONN, NULL,
	  "connections a second: connect, 64 B, reply, close" },
	{ "cacheline", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit), RSK_LIMIT_CACHELINE, NULL,
	  "a cache line bounced between two spinning processes" },
	{ "futex", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit), RSK_LIMIT_FUTEX, NULL,
	  "both sleep on a futex" },
	{ "eventfd", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit), RSK_LIMIT_EVENTFD, NULL,
	  "both sleep in read() of an eventfd" },
	{ "eventfd-epoll", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit),
	  RSK_LIMIT_EVENTFD_EPOLL, NULL,
	  "both sleep in epoll_wait() on an edge-triggered eventfd" },
	{ "copy", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit), RSK_LIMIT_COPY, NULL,
	  "one copy of --size bytes out of the other process (process_vm_readv)" },
	{ "slots", 0, RSK_FOR_LIMIT, RSK_VALUE_CHOICE, RSK_AT(limit), RSK_LIMIT_SLOTS, NULL,
	  "messages of --size (64) bytes one way, by a bare loop over hashed slots" },
	{ "hash", 0, RSK_FOR_LIMIT, RSK_VALUE_FLAG, RSK_AT(hash), 0, NULL,
	  "--copy: the other process hashes each message first, this one its copy" },
	{ "udp", 0, RSK_FOR_CALLS, RSK_VALUE_CHOICE, RSK_AT(calls), RSK_CALLS_UDP, NULL,
	  "send() and recv() of 64 B over a UDP socket" },
	{ "local", 0, RSK_FOR_CALLS, RSK_VALUE_CHOICE, RSK_AT(calls), RSK_CALLS_LOCAL, NULL,
	  "write() and read() of 64 B over a Unix stream socket" },
	{ "file", 0, RSK_FOR_CALLS, RSK_VALUE_CHOICE, RSK_AT(calls), RSK_CALLS_FILE, NULL,
	  "pwrite() and pread() of 64 B of a file in memory" },
	{ "host", 'a', RSK_FOR_SOCKET, RSK_VALUE_TEXT, RSK_AT(host), 0, "ADDR",
	  "address to connect to (loopback) or to listen on (any)" },
	{ "port", 'p', RSK_FOR_SOCKET, RSK_VALUE_TEXT, RSK_AT(port), 0, "PORT",
	  "port (5301); a server's port 0 lets the kernel choose" },
	{ "unix", 'u', RSK_FOR_SOCKET, RSK_VALUE_TEXT, RSK_AT(unix_path), 0, "PATH",
	  "a Unix stream socket instead of TCP" },
	{ "ipv4", '4', RSK_FOR_SOCKET, RSK_VALUE_CHOICE, RSK_AT(family), AF_INET, NULL,
	  "IPv4 only" },
	{ "ipv6", '6', RSK_FOR_SOCKET, RSK_VALUE_CHOICE, RSK_AT(family), AF_INET6, NULL,
	  "IPv6 only" },
	{ "size", 's', RSK_FOR_CLIENT | RSK_FOR_LIMIT, RSK_VALUE_BYTES, RSK_AT(size_bytes), 0,
	  "BYTES", "message size, K and M allowed (64; --bw: 128K; --copy: 1M)" },
	{ "time", 't', RSK_FOR_LOAD, RSK_VALUE_SECONDS, RSK_AT(time_s), 0, "SEC",
	  "how long to measure (3)" },
	{ "count", 'n', RSK_FOR_LOAD, RSK_VALUE_COUNT, RSK_AT(count), 0, "COUNT",
	  "measure so many messages on each connection, not a time" },
	{ "warmup", 'W', RSK_FOR_LOAD, RSK_VALUE_SECONDS, RSK_AT(warmup_s), 0, "SEC",
	  "run before measuring (0.2)" },
	{ "wait", 'w', RSK_FOR_SOCKET, RSK_VALUE_WAIT, RSK_AT(wait), 0, "KIND",
	  "wait in recv (blocking, a thread a connection), poll, select or epoll" },
	{ "nonblock", 0, RSK_FOR_SOCKET, RSK_VALUE_FLAG, RSK_AT(nonblock), 0, NULL,
	  "O_NONBLOCK: try first, wait only for EAGAIN (--wait recv: spin)" },
	{ "conns", 'c', RSK_FOR_CLIENT, RSK_VALUE_SMALL, RSK_AT(conns), 0, "N", "connections (1)" },
	{ "idle", 'i', RSK_FOR_CLIENT, RSK_VALUE_SMALL, RSK_AT(idle), 0, "N",
	  "--lat: streams beside them, each used, at rest, and used again at the end" },
	{ "threads", 'T', RSK_FOR_SOCKET, RSK_VALUE_SMALL, RSK_AT(threads), 0, "N",
	  "threads that share the connections (1; --wait recv: one each)" },
	{ "bidir", 0, RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(flow), RSK_FLOW_BOTH, NULL,
	  "--bw and --rate: both ways at once" },
	{ "reverse", 'R', RSK_FOR_CLIENT, RSK_VALUE_CHOICE, RSK_AT(flow), RSK_FLOW_IN, NULL,
	  "--bw and --rate: the server sends" },
	{ "verify", 'V', RSK_FOR_CLIENT, RSK_VALUE_FLAG, RSK_AT(verify), 0, NULL,
	  "look at every byte, at both ends (slower; else at the ends of each piece)" },
	{ "one-off", '1', RSK_FOR_SERVER, RSK_VALUE_FLAG, RSK_AT(one_off), 0, NULL,
	  "end when the first connection has ended" },
	{ "pin", 0, RSK_FOR_ALL, RSK_VALUE_PIN, 0, 0, "CPU[,CPU...]",
	  "thread (limit: process) n runs on the n-th cpu given" },
	{ "json", 'j', RSK_FOR_LOAD, RSK_VALUE_FLAG, RSK_AT(json), 0, NULL,
	  "print one JSON object" },
	{ "help", 'h', RSK_FOR_ALL, RSK_VALUE_HELP, 0, 0, NULL, "this list" },
};

#define RSK_OPTION_COUNT (sizeof(rsk_options) / sizeof(rsk_options[0]))

static void rsk_opts_help(const char *command, unsigned int bit)
{
	printf("usage: rsperf %s [options]\n", command);
	for (size_t i = 0; i < RSK_OPTION_COUNT; i++) {
		const struct rsk_option *o = &rsk_options[i];
		char left[48];

		if (!(o->commands & bit))
			continue;
		snprintf(left, sizeof(left), "%c%c --%s%s%s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		printf("  %-26s %s\n", left, o->help);
	}
}

static int rsk_parse_u64(const char *text, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	unsigned int shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno)
		return -errno;
	switch (*end) {
	case 'G':
	case 'g':
		shift += 10;
		__attribute__((fallthrough));
	case 'M':
	case 'm':
		shift += 10;
		__attribute__((fallthrough));
	case 'K':
	case 'k':
		shift += 10;
		end++;
		break;
	default:
		break;
	}
	if (*end || v > (max >> shift))
		return -ERANGE;
	*out = (uint64_t)v << shift;
	return 0;
}

static int rsk_parse_seconds(const char *text, double *out)
{
	char *end;
	double v = strtod(text, &end);

	/* Written so that NaN fails, too. */
	if (end == text || *end || !(v >= 0 && v <= 86400))
		return -EINVAL;
	*out = v;
	return 0;
}

static int rsk_parse_pin(const char *text, struct rsk_opts *opts)
{
	opts->pins = 0;
	for (;;) {
		char *end;
		long cpu = strtol(text, &end, 10);

		if (end == text || cpu < 0 || cpu > 4095 || opts->pins == RSK_PIN_MAX)
			return -EINVAL;
		opts->pin[opts->pins++] = (int)cpu;
		if (!*end)
			return 0;
		if (*end != ',')
			return -EINVAL;
		text = end + 1;
	}
}

static int rsk_parse_wait(const char *text, enum rsk_wait_kind *out)
{
	for (size_t i = 0; i < sizeof(rsk_wait_names) / sizeof(rsk_wait_names[0]); i++) {
		if (!strcmp(text, rsk_wait_names[i])) {
			*out = (enum rsk_wait_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

_Static_assert(sizeof(enum rsk_test) == sizeof(int), "RSK_VALUE_CHOICE writes enums as ints");

static int rsk_option_apply(const struct rsk_option *o, const char *arg, struct rsk_opts *opts)
{
	void *at = (char *)opts + o->offset;
	uint64_t v = 0;
	int rc;

	switch (o->value) {
	case RSK_VALUE_FLAG:
		*(bool *)at = true;
		return 0;
	case RSK_VALUE_CHOICE:
		if (*(int *)at && *(int *)at != o->constant)
			return -EEXIST;
		*(int *)at = o->constant;
		return 0;
	case RSK_VALUE_TEXT:
		*(const char **)at = arg;
		return *arg ? 0 : -EINVAL;
	case RSK_VALUE_BYTES:
		rc = rsk_parse_u64(arg, RSK_SIZE_MAX_BYTES, &v);
		*(uint64_t *)at = v;
		return rc ? rc : v ? 0 : -ERANGE;
	case RSK_VALUE_COUNT:
		rc = rsk_parse_u64(arg, UINT64_MAX, &v);
		*(uint64_t *)at = v;
		return rc ? rc : v ? 0 : -ERANGE;
	case RSK_VALUE_SMALL:
		rc = rsk_parse_u64(arg, RSK_CONNS_MAX, &v);
		*(unsigned int *)at = (unsigned int)v;
		return rc ? rc : v ? 0 : -ERANGE;
	case RSK_VALUE_SECONDS:
		return rsk_parse_seconds(arg, at);
	case RSK_VALUE_WAIT:
		return rsk_parse_wait(arg, at);
	case RSK_VALUE_PIN:
		return rsk_parse_pin(arg, opts);
	case RSK_VALUE_HELP:
		break;
	}
	return -EINVAL;
}

static void rsk_opts_defaults(struct rsk_opts *opts)
{
	*opts = (struct rsk_opts){
		.port = "5301",
		.family = AF_UNSPEC,
		.time_s = 3,
		.warmup_s = 0.2,
		.conns = 1,
	};
}

static int rsk_opts_parse(struct rsk_opts *opts, int argc, char **argv, unsigned int bit)
{
	struct option longs[RSK_OPTION_COUNT + 1] = { 0 };
	size_t rows[RSK_OPTION_COUNT];
	char shorts[2 * RSK_OPTION_COUNT + 2];
	size_t n = 0, k = 0;

	rsk_opts_defaults(opts);
	shorts[k++] = ':'; /* makes getopt distinguish a missing value from an unknown option */
	for (size_t i = 0; i < RSK_OPTION_COUNT; i++) {
		const struct rsk_option *o = &rsk_options[i];

		if (!(o->commands & bit))
			continue;
		longs[n].name = o->name;
		longs[n].has_arg = o->arg ? required_argument : no_argument;
		longs[n].val = o->letter ? o->letter : 256 + (int)i;
		rows[n++] = i;
		if (o->letter) {
			shorts[k++] = (char)o->letter;
			if (o->arg)
				shorts[k++] = ':';
		}
	}
	shorts[k] = '\0';
	opterr = 0;
	for (;;) {
		const struct rsk_option *o = NULL;
		int at = optind;
		int c = getopt_long(argc, argv, shorts, longs, NULL);
		int rc;

		if (c == -1)
			break;
		for (size_t i = 0; i < n && !o; i++)
			o = longs[i].val == c ? &rsk_options[rows[i]] : NULL;
		if (!o) {
			fprintf(stderr, "rsperf %s: '%s' %s\n", argv[0], argv[at],
				c == ':' ? "needs a value" : "is not an option here; see --help");
			return 2;
		}
		if (o->value == RSK_VALUE_HELP) {
			rsk_opts_help(argv[0], bit);
			return -1;
		}
		rc = rsk_option_apply(o, optarg, opts);
		if (rc == -EEXIST)
			fprintf(stderr, "rsperf %s: --%s contradicts an earlier option\n", argv[0],
				o->name);
		else if (rc)
			fprintf(stderr, "rsperf %s: '%s' is no value for --%s (%s: %s)\n", argv[0],
				optarg, o->name, o->arg, o->help);
		if (rc)
			return 2;
	}
	if (optind < argc) {
		fprintf(stderr, "rsperf %s: unexpected '%s'\n", argv[0], argv[optind]);
		return 2;
	}
	return 0;
}

static int rsk_opts_wrong(const char *command, const char *why)
{
	fprintf(stderr, "rsperf %s: %s\n", command, why);
	return 2;
}

static int rsk_opts_check_socket(const struct rsk_opts *opts, const char *command)
{
	if (opts->unix_path && (opts->host || opts->family != AF_UNSPEC))
		return rsk_opts_wrong(command, "--unix goes with no address and no IP version");
	return 0;
}

int rsk_opts_parse_server(struct rsk_opts *opts, int argc, char **argv)
{
	int rc = rsk_opts_parse(opts, argc, argv, RSK_FOR_SERVER);

	if (rc)
		return rc;
	if (opts->wait == RSK_WAIT_RECV && opts->threads)
		return rsk_opts_wrong("server",
				      "--wait recv makes a thread a connection by itself");
	if (!opts->threads)
		opts->threads = 1;
	return rsk_opts_check_socket(opts, "server");
}

int rsk_opts_parse_client(struct rsk_opts *opts, int argc, char **argv)
{
	int rc = rsk_opts_parse(opts, argc, argv, RSK_FOR_CLIENT);

	if (rc)
		return rc;
	if (opts->test == RSK_TEST_NONE)
		return rsk_opts_wrong("client", "say --lat, --bw, --rate or --conn");
	if (opts->flow != RSK_FLOW_OUT && opts->test != RSK_TEST_BW && opts->test != RSK_TEST_RATE)
		return rsk_opts_wrong("client",
				      "--bidir and --reverse go with --bw and --rate only");
	if (opts->test == RSK_TEST_CONN && opts->size_bytes)
		return rsk_opts_wrong("client", "--conn has one size: 64 B");
	if (!opts->count && opts->time_s <= 0)
		return rsk_opts_wrong("client", "--time 0 measures nothing");
	if (!opts->size_bytes)
		opts->size_bytes = opts->test == RSK_TEST_BW ? 128 << 10 : 64;
	if (!opts->threads)
		opts->threads = opts->wait == RSK_WAIT_RECV ? opts->conns : 1;
	if (opts->threads > opts->conns)
		return rsk_opts_wrong("client", "more threads than connections");
	if (opts->wait == RSK_WAIT_RECV && opts->threads != opts->conns)
		return rsk_opts_wrong("client", "--wait recv needs a thread for each connection");
	if (opts->idle &&
	    (opts->test != RSK_TEST_LAT || opts->wait == RSK_WAIT_RECV || opts->threads != 1))
		return rsk_opts_wrong("client",
				      "--idle goes with --lat in one thread that waits for many");
	return rsk_opts_check_socket(opts, "client");
}

int rsk_opts_parse_limit(struct rsk_opts *opts, int argc, char **argv)
{
	int rc = rsk_opts_parse(opts, argc, argv, RSK_FOR_LIMIT);

	if (rc)
		return rc;
	if (opts->limit == RSK_LIMIT_NONE)
		return rsk_opts_wrong(
			"limit",
			"say --cacheline, --futex, --eventfd, --eventfd-epoll, --copy or --slots");
	if (opts->size_bytes && opts->limit != RSK_LIMIT_COPY && opts->limit != RSK_LIMIT_SLOTS)
		return rsk_opts_wrong("limit", "--size goes with --copy and --slots");
	if (opts->limit == RSK_LIMIT_SLOTS && opts->size_bytes > RSK_SLOT_MAX_PAYLOAD)
		return rsk_opts_wrong("limit", "--slots has at most 16K a message");
	if (opts->hash && (opts->limit != RSK_LIMIT_COPY || opts->size_bytes > UINT32_MAX))
		return rsk_opts_wrong("limit", "--hash goes with --copy, of less than 4G");
	if (!opts->size_bytes)
		opts->size_bytes = opts->limit == RSK_LIMIT_SLOTS ? 64 : 1 << 20;
	if (!opts->count && opts->time_s <= 0)
		return rsk_opts_wrong("limit", "--time 0 measures nothing");
	return 0;
}

int rsk_opts_parse_calls(struct rsk_opts *opts, int argc, char **argv)
{
	int rc = rsk_opts_parse(opts, argc, argv, RSK_FOR_CALLS);

	if (rc)
		return rc;
	if (opts->calls == RSK_CALLS_NONE)
		return rsk_opts_wrong("calls", "say --udp, --local or --file");
	if (!opts->count && opts->time_s <= 0)
		return rsk_opts_wrong("calls", "--time 0 measures nothing");
	return 0;
}
