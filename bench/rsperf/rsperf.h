/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsperf.h - shared by the parts of rsperf: options, and the two 64-byte messages that client and
 * server exchange besides the load. rsperf uses plain sockets only and knows nothing of librsock:
 * it measures what any program would see.
 */
#ifndef RSK_RSPERF_H
#define RSK_RSPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rsock/clock.h>

#define RSK_PIN_MAX 64
#define RSK_CONNS_MAX 16384
#define RSK_IDLE_CALLS 64 /* round trips of a stream before it becomes idle */
#define RSK_SIZE_MAX_BYTES (64u << 20)
#define RSK_MSG_BYTES 64
#define RSK_NS_PER_S 1000000000ull

enum rsk_test {
	RSK_TEST_NONE,
	RSK_TEST_LAT,
	RSK_TEST_BW,
	RSK_TEST_RATE,
	RSK_TEST_CONN,
	RSK_TEST_COUNT,
};

enum rsk_wait_kind {
	RSK_WAIT_RECV,
	RSK_WAIT_POLL,
	RSK_WAIT_SELECT,
	RSK_WAIT_EPOLL,
};

enum rsk_limit {
	RSK_LIMIT_NONE,
	RSK_LIMIT_CACHELINE,
	RSK_LIMIT_FUTEX,
	RSK_LIMIT_EVENTFD,
	RSK_LIMIT_EVENTFD_EPOLL,
	RSK_LIMIT_COPY,
	RSK_LIMIT_SLOTS,
};

/* Calls that a library has no reason to slow down. */
enum rsk_calls {
	RSK_CALLS_NONE,
	RSK_CALLS_UDP,
	RSK_CALLS_LOCAL,
	RSK_CALLS_FILE,
};

/* Direction of the load of a bandwidth or rate test, seen from the client. */
enum rsk_flow {
	RSK_FLOW_OUT,
	RSK_FLOW_IN,
	RSK_FLOW_BOTH,
	RSK_FLOW_COUNT,
};

struct rsk_opts {
	const char *host;      /* NULL: loopback for clients, any address for servers */
	const char *port;      /* service name or number; "0" lets the kernel choose */
	const char *unix_path; /* not NULL: a Unix stream socket instead of TCP */
	int family;	       /* AF_UNSPEC, AF_INET or AF_INET6 */
	enum rsk_test test;
	enum rsk_limit limit;
	enum rsk_calls calls;
	enum rsk_wait_kind wait;
	enum rsk_flow flow;
	bool nonblock;
	bool hash; /* limit: both ends hash what was copied */
	bool verify;
	bool one_off;
	bool json;
	uint64_t size_bytes; /* 0: the test's default */
	uint64_t count;	     /* 0: run for time_s */
	double time_s;
	double warmup_s;
	unsigned int conns;
	unsigned int idle;    /* idle streams beside them */
	unsigned int threads; /* 0: one per connection with --wait recv, else 1 */
	int pin[RSK_PIN_MAX];
	unsigned int pins;
};

/* The client's request; the first 64 bytes of a connection, echoed by the server. */
struct rsk_hello {
	enum rsk_test test;
	enum rsk_flow flow;
	uint64_t size_bytes;
	bool verify; /* check every byte, not only the ends of each piece */
};

/* The server's counts; the last 64 bytes of a bandwidth or rate connection. */
struct rsk_tally {
	uint64_t rx_bytes;
	uint64_t tx_bytes;
};

/*
 * opts.c: fills opts from argv. 0, or the exit status to end with; -1: help was printed, exit with
 * 0.
 */
int rsk_opts_parse_client(struct rsk_opts *opts, int argc, char **argv);
int rsk_opts_parse_server(struct rsk_opts *opts, int argc, char **argv);
int rsk_opts_parse_limit(struct rsk_opts *opts, int argc, char **argv);
int rsk_opts_parse_calls(struct rsk_opts *opts, int argc, char **argv);
const char *rsk_test_name(enum rsk_test test);
const char *rsk_wait_name(enum rsk_wait_kind kind);
const char *rsk_limit_name(enum rsk_limit limit);
const char *rsk_calls_name(enum rsk_calls calls);
const char *rsk_flow_name(enum rsk_flow flow);

/* The subcommands; each returns the exit status of the program. */
int rsk_client_main(const struct rsk_opts *opts);
int rsk_server_main(const struct rsk_opts *opts);
int rsk_limit_main(const struct rsk_opts *opts);
int rsk_calls_main(const struct rsk_opts *opts);

/* limit_copy.c: rsk_limit_main() with --copy. */
int rsk_limit_copy(const struct rsk_opts *opts);

/* limit_slots.c: rsk_limit_main() with --slots. */
int rsk_limit_slots(const struct rsk_opts *opts);

/* net.c: pins the calling thread to the index-th CPU of --pin, if any; 0 or -errno. */
int rsk_pin_thread(const struct rsk_opts *opts, unsigned int index);

#endif
