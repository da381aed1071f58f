// SPDX-License-Identifier: BSD-2-Clause
/* redirect.c - see redirect.h. */
#include "redirect.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[4] = { 'R', 'S', 'K', 'R' };

ssize_t rsk_redirect_wrap(const struct rsk_pm_msg *req, const struct rsk_pm_addr *from,
			  uint8_t hops, uint8_t out[static RSK_REDIRECT_BYTES])
{
	ssize_t n;

	if (hops >= RSK_REDIRECT_HOPS)
		return -ELOOP;
	if (req->op != RSK_PM_REQ)
		return -EINVAL;
	memcpy(out, magic, sizeof(magic));
	out[4] = from->ipv;
	out[5] = (uint8_t)(hops + 1);
	out[6] = (uint8_t)(from->port >> 8);
	out[7] = (uint8_t)from->port;
	memcpy(out + 8, from->ip, 16);
	n = rsk_pm_msg_encode(req, out + RSK_REDIRECT_HEAD_BYTES, RSK_PM_WIRE_MAPPED_BYTES);
	return n < 0 ? n : n + RSK_REDIRECT_HEAD_BYTES;
}

bool rsk_redirect_unwrap(const uint8_t *datagram, size_t bytes, struct rsk_pm_addr *from,
			 uint8_t *hops)
{
	static const uint8_t rest[12];

	if (bytes < RSK_REDIRECT_HEAD_BYTES + RSK_PM_WIRE_BYTES ||
	    memcmp(datagram, magic, sizeof(magic)) != 0)
		return false;
	*from = (struct rsk_pm_addr){ .ipv = datagram[4],
				      .port = (uint16_t)(datagram[6] << 8 | datagram[7]) };
	memcpy(from->ip, datagram + 8, 16);
	*hops = datagram[5];
	return from->port && (from->ipv == RSK_PM_IPV6 ||
			      (from->ipv == RSK_PM_IPV4 && memcmp(from->ip + 4, rest, 12) == 0));
}

bool rsk_redirect_allowed(const struct rsk_conf_daemon *settings, const struct rsk_pm_addr *who)
{
	for (size_t i = 0; i < settings->n_redirects_from; i++)
		if (rsk_conf_within(&settings->redirects_from[i], who->ipv, who->ip))
			return true;
	return false;
}
