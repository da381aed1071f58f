// SPDX-License-Identifier: BSD-2-Clause
/* target.c - see target.h. */
#include "target.h"

#include "rsock.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

static bool number(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *out)
{
	char copy[24];

	if (!len || len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = 0;
	return parse_number(copy, min, max, out) == 0;
}

int target_parse(const char *text, struct target *out)
{
	size_t len = strlen(text), left = strcspn(text, "@:");
	const char *last = strrchr(text, ':'), *from = text;
	uint64_t a, b;

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	if (number(text, len, 1, INT_MAX, &a)) {
		out->kind = TARGET_PID;
		out->pid = (pid_t)a;
		return 0;
	}
	if (text[left] == '@') {
		if (!number(text, left, 0, INT_MAX, &b) ||
		    !number(text + left + 1, len - left - 1, 1, INT_MAX, &a))
			return -EINVAL;
	} else if (text[left] == ':' && number(text, left, 1, INT_MAX, &a)) {
		if (!number(text + left + 1, len - left - 1, 0, INT_MAX, &b))
			return -EINVAL;
	} else {
		if (!last || !number(last + 1, strlen(last + 1), 1, UINT16_MAX, &a))
			return -EINVAL;
		len = (size_t)(last - text);
		if (*from == '[') {
			if (len < 2 || last[-1] != ']')
				return -EINVAL;
			from++;
			len -= 2;
		} else if (memchr(text, ':', len)) {
			return -EINVAL; /* an IPv6 address without brackets or port */
		}
		if (len >= sizeof(out->host))
			return -EINVAL;
		out->kind = TARGET_ADDRESS;
		out->port = (uint16_t)a;
		memcpy(out->host, from, len);
		return 0;
	}
	out->kind = TARGET_FD;
	out->pid = (pid_t)a;
	out->fd = (int)b;
	return 0;
}

/* A v4-mapped address becomes the IPv4 address. Returns the family. */
static uint16_t canonical(const struct sockaddr *sa, uint8_t addr[static 16])
{
	memset(addr, 0, 16);
	if (sa->sa_family == AF_INET) {
		memcpy(addr, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return AF_INET;
	}
	memcpy(addr, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	if (!IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)addr))
		return AF_INET6;
	memmove(addr, addr + 12, 4);
	memset(addr + 4, 0, 12);
	return AF_INET;
}

int addresses_resolve(const char *host, struct addresses *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	int err;

	memset(out, 0, sizeof(*out));
	out->any = !*host || strcmp(host, "*") == 0;
	if (out->any)
		return 0;
	err = getaddrinfo(host, NULL, &hints, &list);
	if (err)
		return err;
	for (struct addrinfo *ai = list; ai && out->count < TARGET_ADDRESSES; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		out->at[out->count].family = canonical(ai->ai_addr, out->at[out->count].addr);
		out->count++;
	}
	freeaddrinfo(list);
	return out->count ? 0 : EAI_NONAME;
}

bool addresses_have(const struct addresses *all, uint16_t family, const uint8_t addr[static 16])
{
	for (size_t i = 0; i < all->count; i++)
		if (all->at[i].family == family && memcmp(all->at[i].addr, addr, 16) == 0)
			return true;
	return all->any;
}
