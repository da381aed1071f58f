// SPDX-License-Identifier: BSD-2-Clause
/*
 * pm_codec.c - the port mapper's codec as a filter, for tests in other languages (capture.py).
 *
 *   encode OP IPV PMTIME APPORT CPPORT HANDLE CPIP APIP [MAPPEDIP MAPPEDPORT]
 *                         -> the datagram in hex, or "errno N"
 *   decode HEX            -> the message in the same words, or "errno N"
 *
 * It answers each line with a line; numbers are decimal, addresses as inet_pton(3) reads them.
 */
#include "pm_msg.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 8192
#define WORDS 12

static int family(uint8_t ipv)
{
	return ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET;
}

static int fail(const char *what)
{
	fprintf(stderr, "pm_codec: %s\n", what);
	return 1;
}

static void encode(char **word, int words)
{
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];
	struct rsk_pm_msg m = {
		.op = (enum rsk_pm_op)atoi(word[0]),
		.ipv = (uint8_t)atoi(word[1]),
		.pm_time_s = (uint8_t)atoi(word[2]),
		.ap_port = (uint16_t)atoi(word[3]),
		.cp_port = (uint16_t)atoi(word[4]),
		.assoc_handle = strtoull(word[5], NULL, 10),
		.mapped = words == 10,
	};
	ssize_t n;

	inet_pton(family(m.ipv), word[6], m.cp_ip);
	inet_pton(family(m.ipv), word[7], m.ap_ip);
	if (m.mapped) {
		inet_pton(family(m.ipv), word[8], m.mapped_cp_ip);
		m.mapped_cp_port = (uint16_t)atoi(word[9]);
	}
	n = rsk_pm_msg_encode(&m, wire, sizeof(wire));
	if (n < 0) {
		printf("errno %zd\n", -n);
		return;
	}
	for (ssize_t i = 0; i < n; i++)
		printf("%02x", wire[i]);
	putchar('\n');
}

static int decode(const char *hex)
{
	uint8_t wire[LINE_BYTES / 2];
	char cp[INET6_ADDRSTRLEN], ap[INET6_ADDRSTRLEN], mapped[INET6_ADDRSTRLEN];
	size_t len = strlen(hex) / 2;
	struct rsk_pm_msg m;
	int err;

	for (size_t i = 0; i < len; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &wire[i]) != 1)
			return fail("not hex");
	err = rsk_pm_msg_decode(wire, len, &m);
	if (err) {
		printf("errno %d\n", -err);
		return 0;
	}
	inet_ntop(family(m.ipv), m.cp_ip, cp, sizeof(cp));
	inet_ntop(family(m.ipv), m.ap_ip, ap, sizeof(ap));
	printf("%d %d %d %d %d %" PRIu64 " %s %s", (int)m.op, m.ipv, m.pm_time_s, m.ap_port,
	       m.cp_port, m.assoc_handle, cp, ap);
	if (m.mapped)
		printf(" %s %d", inet_ntop(family(m.ipv), m.mapped_cp_ip, mapped, sizeof(mapped)),
		       m.mapped_cp_port);
	putchar('\n');
	return 0;
}

int main(void)
{
	static char line[LINE_BYTES];

	setvbuf(stdout, NULL, _IOLBF, 0); /* line-buffered: the other end waits for each answer */
	while (fgets(line, sizeof(line), stdin)) {
		char *word[WORDS] = { NULL };
		char *rest = NULL;
		int words = 0;

		for (char *w = strtok_r(line, " \n", &rest); w && words < WORDS;
		     w = strtok_r(NULL, " \n", &rest))
			word[words++] = w;
		if (words >= 9 && !strcmp(word[0], "encode"))
			encode(word + 1, words - 1);
		else if (words == 2 && !strcmp(word[0], "decode")) {
			if (decode(word[1]))
				return 1;
		} else {
			return fail("encode WORDS or decode HEX");
		}
	}
	return 0;
}
