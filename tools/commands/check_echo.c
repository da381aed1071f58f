// SPDX-License-Identifier: BSD-2-Clause
/*
 * check_echo.c - rsock check --echo: opens a stream to an echo server, once with the library and
 * once without, and reports whether it is promoted and how long a round trip takes. See check.h.
 */
#include "check.h"

#include "echo.h"
#include "library.h"
#include "rsock.h"
#include "launch.h"
#include "tuple.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rsock/clock.h>

#define TIMEOUT_NS UINT64_C(15000000000)
#define ROUND_NS UINT64_C(2000000000)
#define LOOK_NS UINT64_C(100000000)

/* --- one probe --------------------------------------------------------------------------- */

/*
 * Whether the path of this stream is final. It is not while the stream waits for more calls or
 * bytes, or for the other end.
 */
static bool decided(const struct connection *c)
{
	const struct rsk_stats_stream *s = c->near.record ? c->near.record->stream : NULL;

	if (!s)
		return true;
	if (stream_is_direct(s))
		return s->tx == RSK_PATH_RING && s->rx == RSK_PATH_RING;
	return s->reason != RSK_REASON_NOT_EARNED && s->reason != RSK_REASON_NO_PEER &&
	       s->reason != RSK_REASON_DIRECT;
}

/* Sends rounds until decided() or the deadline. 0, or an error of echo_round() or host_take(). */
static int warm(int fd, const struct rsk_tuple *near, uint64_t deadline_ns)
{
	uint64_t look_ns = 0;
	int err = 0;

	for (uint32_t i = 0; !err; i++) {
		struct connection c;
		struct host host;
		bool done;

		err = echo_round(fd, i, ROUND_NS);
		if (err || rsk_monotonic_ns() < look_ns)
			continue;
		if (i < 64) /* too few calls for a promotion */
			continue;
		err = host_take(0, &host);
		if (err)
			break;
		connection_explain(&host, near, getpid(), &c);
		done = decided(&c);
		host_free(&host);
		if (done || rsk_monotonic_ns() >= deadline_ns)
			break;
		look_ns = rsk_monotonic_ns() + LOOK_NS;
	}
	return err;
}

static int probe(int fd, const struct check *check, uint64_t *p50_ns, uint64_t *p99_ns,
		 json_t **stream)
{
	uint64_t timeout_ns = check->timeout_ns ? check->timeout_ns : TIMEOUT_NS;
	struct connection c;
	struct rsk_tuple near;
	struct host host;
	int err = rsk_tuple_names(fd, &near);

	if (!err)
		err = warm(fd, &near, rsk_monotonic_ns() + timeout_ns);
	if (!err)
		err = echo_measure(fd, ROUND_NS, p50_ns, p99_ns);
	if (!err)
		err = host_take(0, &host);
	if (err)
		return err;
	connection_explain(&host, &near, getpid(), &c);
	*stream = connection_json(&c);
	host_free(&host);
	return 0;
}

int check_probe(const struct check *check)
{
	uint64_t p50_ns = 0, p99_ns = 0;
	json_t *stream = NULL;
	int fd = echo_connect(check->host, check->port, ROUND_NS);
	int err = fd < 0 ? fd : probe(fd, check, &p50_ns, &p99_ns, &stream), status;

	status = json_print(json_pack("{s:s?,s:i,s:o,s:o,s:o}", "error",
				      err == -EBADMSG	? "the server does not echo" :
				      err == -ETIMEDOUT ? "the server does not answer" :
				      err		? strerror(-err) :
							  NULL,
				      "rounds", (int)ECHO_ROUNDS, "p50_ns", json_u64(p50_ns),
				      "p99_ns", json_u64(p99_ns), "stream",
				      stream ? stream : json_null()));
	if (fd >= 0)
		close(fd);
	return status ? status : err ? EXIT_UNKNOWN : EXIT_OK;
}

/* --- both probes ------------------------------------------------------------------------- */

/* Runs one probe in a process and returns its JSON; NULL after a message on standard error. */
static json_t *half(const struct check *check, enum launch_way way, const char *library)
{
	char seconds[32], *host = strdup(check->host), *port = strdup(check->port), *out = NULL;
	char name[] = "rsock", command[] = "check", option[] = "--probe", timeout[] = "--timeout";
	uint64_t timeout_ns = check->timeout_ns ? check->timeout_ns : TIMEOUT_NS;
	char *argv[] = { name, command, option, timeout, seconds, host, port, NULL };
	json_t *got = NULL;
	json_error_t error;
	int status;

	snprintf(seconds, sizeof(seconds), "%.3f", (double)timeout_ns / 1e9);
	status = host && port ? launch_self(way, library, argv, &out) : -ENOMEM;
	if (status >= 0 && out)
		got = json_loads(out, 0, &error);
	if (!got)
		failure("the process of the test failed: %s",
			status < 0 ? strerror(-status) : "no answer");
	free(out);
	free(host);
	free(port);
	return got;
}

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void tell_end(const char *which, json_t *end)
{
	const char *sentence = text_of(end, "sentence");

	printf("%s: %s (%" JSON_INTEGER_FORMAT "): sends by %s, receives by %s; %s%s%s\n", which,
	       *text_of(end, "comm") ? text_of(end, "comm") : "a process that cannot be read",
	       json_integer_value(json_object_get(end, "pid")),
	       *text_of(end, "tx") ? text_of(end, "tx") : "tcp",
	       *text_of(end, "rx") ? text_of(end, "rx") : "tcp", text_of(end, "reason"),
	       *sentence ? ": " : "", sentence);
}

static void tell(const struct check *check, json_t *plain, json_t *preloaded, json_t *stream)
{
	double tcp_us = (double)json_integer_value(json_object_get(plain, "p50_ns")) / 1e3;
	double now_us = (double)json_integer_value(json_object_get(preloaded, "p50_ns")) / 1e3;

	printf("%s port %s: %s\n", check->host, check->port,
	       json_is_true(json_object_get(stream, "accelerated")) ? "accelerated" : "on TCP");
	tell_end("this end", json_object_get(stream, "end"));
	tell_end("the other", json_object_get(stream, "other_end"));
	printf("round trip of 64 bytes, median of %u: "
	       "%.2f us without librsock.so, %.2f us with it\n",
	       ECHO_ROUNDS, tcp_us, now_us);
	if (*text_of(stream, "cure"))
		printf("Cure: %s\n", text_of(stream, "cure"));
}

int check_echo(const struct check *check)
{
	json_t *plain = NULL, *preloaded = NULL, *stream;
	char library[PATH_MAX];
	int status = EXIT_FAILED;
	const char *wrong;

	if (library_find(library))
		return failure("no %s: %s cannot be read", LIBRARY_FILE, library);
	plain = half(check, LAUNCH_PLAIN, library);
	if (plain && !*text_of(plain, "error"))
		preloaded = half(check, LAUNCH_PRELOADED, library);
	wrong = plain && *text_of(plain, "error") ? text_of(plain, "error") :
		preloaded			  ? text_of(preloaded, "error") :
						    "";
	stream = json_object_get(preloaded, "stream");
	if (*wrong) {
		fprintf(stderr, "rsock: %s port %s: %s\n", check->host, check->port, wrong);
		status = EXIT_UNKNOWN;
	} else if (stream) {
		json_t *direct = json_object_get(stream, "accelerated");

		status = json_is_null(direct) ? EXIT_UNKNOWN :
			 json_is_true(direct) ? EXIT_OK :
						EXIT_NO;
		if (!check->json)
			tell(check, plain, preloaded, stream);
		else if (json_print(json_pack("{s:O,s:O,s:O,s:O}", "accelerated", direct, "stream",
					      stream, "tcp_p50_ns",
					      json_object_get(plain, "p50_ns"), "p50_ns",
					      json_object_get(preloaded, "p50_ns"))))
			status = EXIT_FAILED;
	}
	json_decref(plain);
	json_decref(preloaded);
	return status;
}
