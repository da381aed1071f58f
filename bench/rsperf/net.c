/* SPDX-License-Identifier: BSD-2-Clause */
/* net.c - see net.h. */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

static int rsk_net_resolve_unix(struct rsk_addrs *addrs, const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(un.sun_path)) {
		fprintf(stderr, "rsperf: a Unix socket's path has at most %zu bytes\n",
			sizeof(un.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(un.sun_path, path, strlen(path) + 1);
	memcpy(&addrs->addr[0], &un, sizeof(un));
	addrs->len[0] = sizeof(un);
	addrs->count = 1;
	return 0;
}

int rsk_net_resolve(struct rsk_addrs *addrs, const struct rsk_opts *opts, bool passive)
{
	struct addrinfo hints = {
		.ai_family = opts->family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = passive ? AI_PASSIVE : 0,
	};
	const char *host = opts->host;
	struct addrinfo *list;
	int rc;

	memset(addrs, 0, sizeof(*addrs));
	if (opts->unix_path)
		return rsk_net_resolve_unix(addrs, opts->unix_path);
	/* Checked here because getaddrinfo() takes the low 16 bits of any number. */
	if (strspn(opts->port, "0123456789") == strlen(opts->port) &&
	    strtoul(opts->port, NULL, 10) > UINT16_MAX) {
		fprintf(stderr, "rsperf: '%s' is no port\n", opts->port);
		return -EINVAL;
	}
	/* By number, since "localhost" is IPv6 on some hosts and IPv4 on others. */
	if (!host && !passive)
		host = opts->family == AF_INET6 ? "::1" : "127.0.0.1";
	rc = getaddrinfo(host, opts->port, &hints, &list);
	if (rc) {
		fprintf(stderr, "rsperf: '%s' port '%s': %s\n", host ? host : "any", opts->port,
			rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
		return -EADDRNOTAVAIL;
	}
	/* A server on any address tries IPv6 first, since that socket serves IPv4, too. */
	for (int pass = 0; pass < 2; pass++) {
		for (struct addrinfo *a = list; a && addrs->count < RSK_ADDRS_MAX; a = a->ai_next) {
			bool first = !passive || host || a->ai_family == AF_INET6;

			if (first != (pass == 0))
				continue;
			memcpy(&addrs->addr[addrs->count], a->ai_addr, a->ai_addrlen);
			addrs->len[addrs->count++] = a->ai_addrlen;
		}
	}
	freeaddrinfo(list);
	return 0;
}

static void rsk_net_text(int fd, char text[static RSK_ADDR_TEXT])
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	char host[64] = "?", port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
		if (ss.ss_family == AF_UNIX) {
			snprintf(text, RSK_ADDR_TEXT, "unix:%s",
				 ((struct sockaddr_un *)&ss)->sun_path);
			return;
		}
		getnameinfo((struct sockaddr *)&ss, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	}
	snprintf(text, RSK_ADDR_TEXT, ss.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

int rsk_net_listen(const struct rsk_addrs *addrs, bool nonblock, int *fd,
		   char text[static RSK_ADDR_TEXT])
{
	int type = SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0);
	int rc = -EADDRNOTAVAIL;

	for (unsigned int i = 0; i < addrs->count; i++) {
		const struct sockaddr *sa = (const struct sockaddr *)&addrs->addr[i];
		int one = 1;
		int s = socket(sa->sa_family, type, 0);

		if (s < 0) {
			rc = -errno;
			continue;
		}
		if (sa->sa_family != AF_UNIX)
			setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(s, sa, addrs->len[i]) == 0 && listen(s, SOMAXCONN) == 0) {
			rsk_net_text(s, text);
			*fd = s;
			return 0;
		}
		rc = -errno;
		close(s);
	}
	fprintf(stderr, "rsperf: cannot listen: %s\n", strerror(-rc));
	return rc;
}

int rsk_net_connect(const struct rsk_addrs *addrs, int *fd)
{
	int rc = -EADDRNOTAVAIL;

	for (unsigned int i = 0; i < addrs->count; i++) {
		const struct sockaddr *sa = (const struct sockaddr *)&addrs->addr[i];
		int s = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s < 0)
			return -errno;
		if (connect(s, sa, addrs->len[i]) == 0) {
			*fd = s;
			return 0;
		}
		rc = -errno;
		close(s);
	}
	return rc;
}

int rsk_net_tune(int fd, enum rsk_test test, bool nonblock)
{
	int one = 1;

	if (nonblock) {
		int flags = fcntl(fd, F_GETFL);

		if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
			return -errno;
	}
	if (test != RSK_TEST_BW &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

void rsk_net_raise_fds(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int rsk_pin_thread(const struct rsk_opts *opts, unsigned int index)
{
	cpu_set_t set;
	int cpu, rc;

	if (!opts->pins)
		return 0;
	cpu = opts->pin[index % opts->pins];
	if (cpu >= CPU_SETSIZE) {
		rc = EINVAL;
	} else {
		CPU_ZERO(&set);
		CPU_SET((size_t)cpu, &set);
		rc = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
	if (rc)
		fprintf(stderr, "rsperf: cannot run on cpu %d: %s\n", cpu, strerror(rc));
	return -rc;
}
