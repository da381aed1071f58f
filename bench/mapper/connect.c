// SPDX-License-Identifier: BSD-2-Clause
/*
 * connect.c - measures a connection for which the port mapper is asked: from connect() to the
 * acceptor's first byte, alternating between plain, asked in parallel, and asked first. The
 * question goes to rsockd's control socket, over a persistent connection, and names the
 * connection's own port, so that it is never answered from the cache, except in the last variant,
 * which asks for the service. Prints JSON: microseconds of each variant, in the order of rounds.
 * Run by mapper_connect.py.
 *
 * 	pmconnect serve IP PORT
 * 	pmconnect ROUNDS CONTROL-SOCKET IP PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rsock/clock.h>

enum turn {
	PLAIN,
	/* Asks and connects without waiting; reads the answer when the connection is made. */
	BESIDE,
	FIRST,	    /* waits for the mapping, then connects: an aggregate address */
	REMEMBERED, /* the same, answered from the PM client's cache */
	TURNS
};

static const char *const names[TURNS] = { "plain", "beside", "first", "remembered" };

static struct {
	int control;
	struct sockaddr_in to;
	const char *ip;
	unsigned int port;
} opt;

static void die(const char *what)
{
	fprintf(stderr, "pmconnect: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	return (double)rsk_monotonic_ns() / 1e3;
}

/* ---- the acceptor ---- */

static void serve(void)
{
	static const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char byte = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&opt.to, sizeof(opt.to)) < 0 || listen(fd, 16) < 0)
		die("listen");
	for (;;) {
		int conn = accept(fd, NULL, NULL);

		if (conn < 0)
			die("accept");
		if (send(conn, &byte, 1, MSG_NOSIGNAL) == 1)
			(void)!recv(conn, &byte, 1, 0); /* until the other end has closed */
		close(conn);
	}
}

/* ---- the mapping ---- */

static int control_socket(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strlen(path) >= sizeof(sa.sun_path))
		die("the control socket's path");
	memcpy(sa.sun_path, path, strlen(path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		die(path);
	return fd;
}

static void ask(unsigned int cp_port)
{
	char body[160], text[320];
	int n, len;

	len = snprintf(body, sizeof(body), "{\"ip\":\"%s\",\"port\":%u,\"cp_port\":%u}", opt.ip,
		       opt.port, cp_port);
	n = snprintf(text, sizeof(text),
		     "POST /v1/map HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		     len, body);
	if (send(opt.control, text, (size_t)n, MSG_NOSIGNAL) != n)
		die("asking");
}

/* Reads the whole answer, which must contain "mapped". */
static void hear(void)
{
	char text[4096], *body = NULL, *length;
	size_t have = 0, want = sizeof(text);

	while (have < want) {
		ssize_t n = recv(opt.control, text + have, sizeof(text) - 1 - have, 0);

		if (n <= 0)
			die("the answer");
		have += (size_t)n;
		text[have] = 0;
		body = body ? body : strstr(text, "\r\n\r\n");
		length = strcasestr(text, "Content-Length: ");
		if (body && length)
			want = (size_t)(body - text) + 4 + strtoul(length + 16, NULL, 10);
	}
	if (!body || !strstr(body, "\"outcome\":\"mapped\"")) {
		fprintf(stderr, "pmconnect: not mapped: %s\n", text);
		exit(1);
	}
}

/* ---- one measurement ---- */

/*
 * A socket that is bound to a port, so that a mapping for the connection can be requested before it
 * is made.
 */
static int bound(unsigned int *port)
{
	/* No TIME_WAIT, which would use up the ports. */
	static const struct linger at_once = { 1, 0 };
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) < 0)
		die("a socket");
	*port = ntohs(sa.sin_port);
	return fd;
}

static double one(enum turn turn)
{
	unsigned int port;
	int fd = bound(&port);
	double began = now_us(), took;
	char byte;

	if (turn != PLAIN)
		ask(turn == REMEMBERED ? 0 : port);
	if (turn == FIRST || turn == REMEMBERED)
		hear();
	if (connect(fd, (struct sockaddr *)&opt.to, sizeof(opt.to)) < 0)
		die("connect");
	if (recv(fd, &byte, 1, 0) != 1)
		die("the acceptor's byte");
	took = now_us() - began;
	if (turn == BESIDE)
		hear();
	close(fd);
	return took;
}

static void measure(size_t rounds)
{
	double *took[TURNS];

	for (int t = 0; t < TURNS; t++) {
		took[t] = calloc(rounds, sizeof(double));
		if (!took[t])
			die("figures");
		one((enum turn)t); /* warms up, and puts the service's mapping into the cache */
	}
	/* The order rotates, so that each variant is first, second, ... equally often. */
	for (size_t i = 0; i < rounds; i++)
		for (size_t t = 0; t < TURNS; t++)
			took[(i + t) % TURNS][i] = one((enum turn)((i + t) % TURNS));
	for (int t = 0; t < TURNS; t++) {
		printf("%s\"%s\": [", t ? ", " : "{", names[t]);
		for (size_t i = 0; i < rounds; i++)
			printf("%s%.2f", i ? ", " : "", took[t][i]);
		printf("]");
		free(took[t]);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	bool serves = argc == 4 && strcmp(argv[1], "serve") == 0;

	opt.to.sin_family = AF_INET;
	if ((!serves && argc != 5) || inet_pton(AF_INET, argv[argc - 2], &opt.to.sin_addr) != 1) {
		fputs("usage: pmconnect serve IP PORT\n"
		      "       pmconnect ROUNDS CONTROL-SOCKET IP PORT\n",
		      stderr);
		return 2;
	}
	opt.ip = argv[argc - 2];
	opt.port = (unsigned int)strtoul(argv[argc - 1], NULL, 10);
	opt.to.sin_port = htons((uint16_t)opt.port);
	if (serves)
		serve();
	opt.control = control_socket(argv[2]);
	measure(strtoul(argv[1], NULL, 10));
	return 0;
}
