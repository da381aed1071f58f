// SPDX-License-Identifier: BSD-2-Clause
/* pm_addr.c - see pm_addr.h. */
#include "pm_addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rsock/pm_wire.h>

_Static_assert(RSK_PM_IP_TEXT >= INET6_ADDRSTRLEN, "room for any");

socklen_t rsk_pm_addr_to_socket(const struct rsk_pm_addr *a, struct sockaddr_storage *out)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(a->port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(a->port) };

	if (a->ipv == RSK_PM_IPV6) {
		memcpy(&six.sin6_addr, a->ip, 16);
		memcpy(out, &six, sizeof(six));
		return sizeof(six);
	}
	memcpy(&four.sin_addr, a->ip, 4);
	memcpy(out, &four, sizeof(four));
	return sizeof(four);
}

bool rsk_pm_addr_of_socket(const struct sockaddr_storage *s, struct rsk_pm_addr *out)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four;

	if (s->ss_family == AF_INET6) {
		memcpy(&six, s, sizeof(six));
		*out = (struct rsk_pm_addr){ .ipv = RSK_PM_IPV6, .port = ntohs(six.sin6_port) };
		memcpy(out->ip, &six.sin6_addr, 16);
		return true;
	}
	if (s->ss_family != AF_INET)
		return false;
	memcpy(&four, s, sizeof(four));
	*out = (struct rsk_pm_addr){ .ipv = RSK_PM_IPV4, .port = ntohs(four.sin_port) };
	memcpy(out->ip, &four.sin_addr, 4);
	return true;
}

int rsk_pm_addr_of_fd(int fd, struct rsk_pm_addr *out)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	return rsk_pm_addr_of_socket(&sa, out) ? 0 : -EAFNOSUPPORT;
}

int rsk_pm_addr_of_peer(int fd, struct rsk_pm_addr *out)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	if (!rsk_pm_addr_of_socket(&sa, out))
		return -EAFNOSUPPORT;
	if (out->ipv == RSK_PM_IPV6 && memcmp(out->ip, mapped, sizeof(mapped)) == 0) {
		out->ipv = RSK_PM_IPV4;
		memmove(out->ip, out->ip + 12, 4);
		memset(out->ip + 4, 0, 12);
	}
	return 0;
}

const char *rsk_pm_ip_text(uint8_t ipv, const uint8_t ip[static 16],
			   char text[static RSK_PM_IP_TEXT])
{
	return inet_ntop(ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, ip, text, RSK_PM_IP_TEXT);
}

bool rsk_pm_addr_is_for_others(const struct rsk_pm_addr *a)
{
	static const uint8_t zero[16];

	if (memcmp(a->ip, zero, 16) == 0)
		return false;
	if (a->ipv == RSK_PM_IPV4) /* 0/8, 127/8, 169.254/16, 224/3 */
		return a->ip[0] != 0 && a->ip[0] != 127 && a->ip[0] < 224 &&
		       (a->ip[0] != 169 || a->ip[1] != 254);
	/* ::1, ff00::/8, fe80::/10 */
	return memcmp(a->ip, zero, 15) != 0 && a->ip[0] != 0xff &&
	       (a->ip[0] != 0xfe || (a->ip[1] & 0xc0) != 0x80);
}
