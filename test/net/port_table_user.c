// SPDX-License-Identifier: BSD-2-Clause
/*
 * port_table_user.c - bin/net_port_table_user, a process at rsockd's socket that has a port table
 * and executes commands on it (net_port_table.py). Argument: the socket's path. It reads one
 * command a line from standard input, and prints one answer each:
 *
 *	state IP	the state of the port
 *	take IP N	reserves N rails, one after the other; prints how many, and why no more
 *	give IP N	returns N rails in the same way
 *	spoil MS	writes random words anywhere in the table
 *	busy IP MS	locks the port's record again and again, in all processes' names
 *	close		closes the connection, but keeps the table
 *	number		prints its number in the table
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rsock/clock.h>
#include <rsock/splitmix.h>

#include "port_table.h"
#include "local_msg.h"

static struct rsk_port_table port_table;

static uint64_t now_ms(void)
{
	return rsk_monotonic_ns() / 1000000u;
}

static int dial(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct rsk_local_msg m = { .type = RSK_LOCAL_HELLO, .flags = RSK_LOCAL_ABLE };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), with, rc;
	uint64_t until = now_ms() + 20000;

	strncpy(sa.sun_path, path, sizeof(sa.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	rc = rsk_local_msg_send(fd, &m, -1);
	while (rc == 0 || (rc == -EAGAIN && now_ms() < until)) {
		usleep(1000);
		rc = rsk_local_msg_recv(fd, true, &m, &with);
		if (rc > 0 && m.type == RSK_LOCAL_PORT_TABLE && with >= 0) {
			rc = rsk_port_table_attach(&port_table, with, m.port);
			close(with);
			return rc < 0 ? rc : fd;
		}
	}
	return rc < 0 ? rc : -EPROTO;
}

static uint32_t port_of(const char *ip, struct rsk_port_table_data *t)
{
	uint8_t at[16] = { 0 };
	uint16_t family = strchr(ip, ':') ? AF_INET6 : AF_INET;
	int rc;

	do
		rc = rsk_port_table_read(&port_table, t);
	while (rc == -EAGAIN);
	if (rc < 0 || inet_pton(family, ip, at) != 1)
		return RSK_PORT_TABLE_NOWHERE;
	return rsk_port_table_find(t, family, at);
}

static void say_state(const char *ip)
{
	static const char *const names[] = { "none", "up", "overloaded", "drained", "down" };
	struct rsk_port_table_data t;
	uint32_t at = port_of(ip, &t);

	if (at == RSK_PORT_TABLE_NOWHERE)
		puts("unlisted");
	else
		printf("%s%s\n", names[t.port[at].state], t.port[at].spare ? " spare" : "");
}

static void reserve(const char *ip, uint32_t n, bool take)
{
	struct rsk_port_table_data t;
	uint32_t at = port_of(ip, &t), done = 0;
	int rc = 0;

	while (done < n) {
		rc = take ? rsk_port_table_take(&port_table, at, t.need) :
			    rsk_port_table_give(&port_table, at, t.need);
		if (rc < 0)
			break;
		done++;
	}
	printf("%u %s\n", done, rc == -ENOSPC ? "full" : rc < 0 ? strerror(-rc) : "done");
}

static void spoil(uint64_t ms)
{
	uint64_t until = now_ms() + ms, dice = now_ms(), *words = (void *)port_table.rail.window;
	size_t n = port_table.rail.window_bytes / 8;

	while (now_ms() < until)
		for (int i = 0; i < 1000; i++) {
			uint64_t word = rsk_splitmix_next(&dice);

			__atomic_store_n(words + (word >> 33) % n, word, __ATOMIC_RELAXED);
		}
	puts("done");
}

/* All values that it writes are valid, but no other process gets the lock. */
static void keep_busy(const char *ip, uint64_t ms)
{
	struct rsk_port_table_data t;
	uint32_t at = port_of(ip, &t), holder = 0;
	uint64_t until = now_ms() + ms, *word, was;

	if (at == RSK_PORT_TABLE_NOWHERE) {
		puts("unlisted");
		return;
	}
	word = (void *)(port_table.rail.window + port_table.at[at].off);
	while (now_ms() < until)
		for (int i = 0; i < 1000; i++) {
			was = __atomic_load_n(word, __ATOMIC_RELAXED);
			holder = holder % (RSK_PORT_TABLE_OWNER - 1) + 1;
			__atomic_compare_exchange_n(word, &was, (was & ~0xffull) | holder, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		}
	puts("done");
}

int main(int argc, char **argv)
{
	char line[128], word[16], ip[64];
	unsigned int n;
	int fd = argc == 2 ? dial(argv[1]) : -EINVAL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s\n", fd < 0 ? strerror(-fd) : "ready");
	while (fd >= 0 && fgets(line, sizeof(line), stdin)) {
		n = 1;
		*ip = 0;
		if (sscanf(line, "%15s %63s %u", word, ip, &n) < 1)
			continue;
		if (!strcmp(word, "state"))
			say_state(ip);
		else if (!strcmp(word, "take") || !strcmp(word, "give"))
			reserve(ip, n, *word == 't');
		else if (!strcmp(word, "spoil"))
			spoil(strtoull(ip, NULL, 10));
		else if (!strcmp(word, "busy"))
			keep_busy(ip, n);
		else if (!strcmp(word, "number"))
			printf("%u\n", port_table.me);
		else if (!strcmp(word, "close"))
			printf("%d\n", close(fd));
		else
			return 2;
	}
	return fd < 0;
}
