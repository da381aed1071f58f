// SPDX-License-Identifier: BSD-2-Clause
/*
 * echo.c - the bound for a PMSP over UDP: makes the system calls of rsockd for each datagram
 * (rsockd's own udp.c and udp_out.c), and nothing else. A PMReq is sent back as its own PMAccept,
 * with one byte changed; a PMAck is dropped. Run by mapper.py beside rsockd, with the same load.
 *
 * 	pmecho IP PORT
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include <rsock/pm_wire.h>

#include "udp.h"

static struct rsk_udp udp;

static void take(void *ctx, const struct rsk_pm_addr *from, const void *datagram, size_t bytes,
		 uint64_t now_ns)
{
	struct rsk_pm_wire m;

	(void)ctx;
	(void)now_ns;
	if (bytes < RSK_PM_WIRE_BYTES)
		return;
	memcpy(&m, datagram, RSK_PM_WIRE_BYTES);
	if ((m.magic >> 4 & 3) != RSK_PM_REQ)
		return;
	m.magic |= RSK_PM_ACCEPT << 4;
	m.pm_time_s = 254;
	rsk_udp_send(&udp, from, &m, RSK_PM_WIRE_BYTES);
}

static void after(void *ctx)
{
	(void)ctx;
}

int main(int argc, char **argv)
{
	struct rsk_pm_addr at = { .ipv = RSK_PM_IPV4 };
	struct event_base *base = event_base_new();

	if (argc != 3 || inet_pton(AF_INET, argv[1], at.ip) != 1) {
		fputs("usage: pmecho IP PORT\n", stderr);
		return 2;
	}
	at.port = (uint16_t)strtoul(argv[2], NULL, 10);
	if (!base || rsk_udp_init(&udp, base, NULL, take, after, NULL) < 0 ||
	    rsk_udp_open(&udp, &at) < 0) {
		fputs("pmecho: cannot open the socket\n", stderr);
		return 1;
	}
	puts("open");
	fflush(stdout);
	event_base_dispatch(base);
	return 1;
}
