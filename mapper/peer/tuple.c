// SPDX-License-Identifier: BSD-2-Clause
/* tuple.c - see tuple.h. */
#include "tuple.h"

#include <netinet/in.h>
#include <rsock/sys.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static const uint8_t mapped_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

struct end {
	uint8_t addr[16];
	uint16_t port;
	uint16_t family;
	uint32_t scope;
};

static int end_from_addr(const struct sockaddr_storage *ss, socklen_t len, struct end *out)
{
	*out = (struct end){ 0 };
	if (len < sizeof(sa_family_t))
		return -EAFNOSUPPORT;
	if (ss->ss_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		struct sockaddr_in sin;

		memcpy(&sin, ss, sizeof(sin));
		out->family = AF_INET;
		out->port = ntohs(sin.sin_port);
		memcpy(out->addr, &sin.sin_addr, 4);
		return 0;
	}
	if (ss->ss_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
		struct sockaddr_in6 sin6;

		memcpy(&sin6, ss, sizeof(sin6));
		out->port = ntohs(sin6.sin6_port);
		if (memcmp(&sin6.sin6_addr, mapped_prefix, sizeof(mapped_prefix)) == 0) {
			out->family = AF_INET;
			memcpy(out->addr, (const uint8_t *)&sin6.sin6_addr + 12, 4);
			return 0;
		}
		out->family = AF_INET6;
		out->scope = sin6.sin6_scope_id;
		memcpy(out->addr, &sin6.sin6_addr, 16);
		return 0;
	}
	return -EAFNOSUPPORT;
}

int rsk_tuple_from_addrs(const struct sockaddr_storage *local, socklen_t local_len,
			 const struct sockaddr_storage *peer, socklen_t peer_len,
			 struct rsk_tuple *out)
{
	struct end l, p;
	int err;

	err = end_from_addr(local, local_len, &l);
	if (!err)
		err = end_from_addr(peer, peer_len, &p);
	if (err)
		return err;
	if (l.family != p.family)
		return -EAFNOSUPPORT;
	*out = (struct rsk_tuple){
		.local_port = l.port,
		.peer_port = p.port,
		.family = l.family,
		.scope = l.scope ? l.scope : p.scope,
	};
	memcpy(out->local, l.addr, 16);
	memcpy(out->peer, p.addr, 16);
	return 0;
}

uint64_t rsk_netns_of_fd(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0 ||
	    len != sizeof(cookie))
		return 0;
	return cookie;
}

int rsk_tuple_names(int fd, struct rsk_tuple *out)
{
	struct sockaddr_storage local, peer;
	socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
	int err;

	err = rsk_sys_getsockname(fd, &local, &local_len);
	if (!err)
		err = rsk_sys_getpeername(fd, &peer, &peer_len);
	if (!err)
		err = rsk_tuple_from_addrs(&local, local_len, &peer, peer_len, out);
	return err;
}

int rsk_tuple_from_fd(int fd, struct rsk_tuple *out)
{
	int err = rsk_tuple_names(fd, out);

	if (!err)
		out->netns = rsk_netns_of_fd(fd);
	return err;
}

int rsk_tuple_peer(const struct sockaddr *peer, socklen_t len, struct rsk_tuple *out)
{
	struct sockaddr_storage copy;
	struct end p;
	int err;

	/* The usual case: this is called in each connect(). */
	if (peer && peer->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		struct sockaddr_in sin;

		memcpy(&sin, peer, sizeof(sin));
		*out = (struct rsk_tuple){ .peer_port = ntohs(sin.sin_port), .family = AF_INET };
		memcpy(out->peer, &sin.sin_addr, 4);
		return 0;
	}
	if (!peer || len > sizeof(copy))
		return -EAFNOSUPPORT;
	memcpy(&copy, peer, len);
	err = end_from_addr(&copy, len, &p);
	if (err)
		return err;
	*out = (struct rsk_tuple){ .peer_port = p.port, .family = p.family, .scope = p.scope };
	memcpy(out->peer, p.addr, 16);
	return 0;
}

uint64_t rsk_cookie_of(int fd)
{
	uint64_t v = 0;
	socklen_t len = sizeof(v);

	rsk_sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &v, &len);
	return v;
}

static char *put_number(char *at, unsigned int value, unsigned int base)
{
	char digits[10];
	unsigned int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (n)
		*at++ = digits[--n];
	return at;
}

/* RFC 5952: the longest run of at least two zero groups, the first of equals, is "::". */
static char *put_ipv6(char *at, const uint8_t addr[static 16])
{
	unsigned int best = 8, best_len = 1, i, run = 0;

	for (i = 0; i < 8; i++) {
		run = addr[2 * i] == 0 && addr[2 * i + 1] == 0 ? run + 1 : 0;
		if (run > best_len) {
			best_len = run;
			best = i + 1 - run;
		}
	}
	for (i = 0; i < 8; i++) {
		if (i == best) {
			*at++ = ':';
			if (i + best_len == 8)
				*at++ = ':';
			i += best_len - 1;
			continue;
		}
		if (i)
			*at++ = ':';
		at = put_number(at, (unsigned int)addr[2 * i] << 8 | addr[2 * i + 1], 16);
	}
	return at;
}

unsigned int rsk_addr_text(uint16_t family, const uint8_t addr[static 16], uint16_t port,
			   char buf[static RSK_ADDR_TEXT])
{
	char *at = buf;

	if (!port) {
		*at++ = '-';
		*at = 0;
		return 1;
	}
	if (family == AF_INET) {
		for (unsigned int i = 0; i < 4; i++) {
			if (i)
				*at++ = '.';
			at = put_number(at, addr[i], 10);
		}
	} else {
		*at++ = '[';
		at = put_ipv6(at, addr);
		*at++ = ']';
	}
	*at++ = ':';
	at = put_number(at, port, 10);
	*at = 0;
	return (unsigned int)(at - buf);
}
