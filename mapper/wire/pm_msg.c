// SPDX-License-Identifier: BSD-2-Clause
/* pm_msg.c - see pm_msg.h. The parser reads each byte once, from a copy. */
#include "pm_msg.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static const uint8_t no_ip[16];

static bool ip_is_zero(const uint8_t ip[static 16])
{
	return memcmp(ip, no_ip, sizeof(no_ip)) == 0;
}

static bool ip_fits(const uint8_t ip[static 16], uint8_t ipv)
{
	return ipv == RSK_PM_IPV6 || memcmp(ip + 4, no_ip, 12) == 0;
}

/* Copies an address; what follows an IPv4 address is not part of it. */
static void ip_take(uint8_t to[static 16], const uint8_t from[static 16], uint8_t ipv)
{
	memset(to, 0, 16);
	memcpy(to, from, ipv == RSK_PM_IPV4 ? 4 : 16);
}

int rsk_pm_msg_validate(const struct rsk_pm_msg *msg)
{
	if ((unsigned int)msg->op > RSK_PM_DENY)
		return -EINVAL;
	if (msg->ipv != RSK_PM_IPV4 && msg->ipv != RSK_PM_IPV6)
		return -EAFNOSUPPORT;
	if (!ip_fits(msg->cp_ip, msg->ipv) || !ip_fits(msg->ap_ip, msg->ipv) ||
	    !ip_fits(msg->mapped_cp_ip, msg->ipv))
		return -EAFNOSUPPORT;
	if (msg->assoc_handle == 0 || msg->ap_port == 0)
		return -EINVAL;
	if (msg->op != RSK_PM_ACCEPT && msg->pm_time_s != 0)
		return -EINVAL;
	/*
	 * An accept must name an address to which a link can be made; nothing listens at the "any"
	 * address.
	 */
	if (msg->op == RSK_PM_ACCEPT && ip_is_zero(msg->ap_ip))
		return -EINVAL;
	if (msg->mapped) {
		if (msg->op != RSK_PM_REQ || ip_is_zero(msg->mapped_cp_ip))
			return -EINVAL;
	} else if (msg->mapped_cp_port != 0 || !ip_is_zero(msg->mapped_cp_ip)) {
		return -EINVAL;
	}
	return 0;
}

int rsk_pm_msg_decode(const void *buf, size_t len, struct rsk_pm_msg *out)
{
	struct rsk_pm_wire w = { 0 };
	struct rsk_pm_msg m = { 0 };
	int err;

	if (len != RSK_PM_WIRE_BYTES && len < RSK_PM_WIRE_MAPPED_BYTES)
		return -EMSGSIZE;
	memcpy(&w, buf, len < sizeof(w) ? len : sizeof(w));

	if (w.magic >> 6 != RSK_PM_VERSION)
		return -EPROTONOSUPPORT;
	m.op = (enum rsk_pm_op)((w.magic >> 4) & 3);
	m.ipv = w.magic & 15;
	m.pm_time_s = m.op == RSK_PM_ACCEPT ? w.pm_time_s : 0;
	m.ap_port = be16toh(w.ap_port);
	m.cp_port = be16toh(w.cp_port);
	m.assoc_handle = be64toh(w.assoc_handle);
	ip_take(m.cp_ip, w.cp_ip, m.ipv);
	ip_take(m.ap_ip, w.ap_ip, m.ipv);
	/* A 64-byte PMReq that names no link source is a 48-byte PMReq with spare bytes. */
	if (m.op == RSK_PM_REQ && len >= RSK_PM_WIRE_MAPPED_BYTES) {
		ip_take(m.mapped_cp_ip, w.mapped_cp_ip, m.ipv);
		m.mapped = !ip_is_zero(m.mapped_cp_ip);
		m.mapped_cp_port = m.mapped ? be16toh(w.mapped_cp_port) : 0;
	}

	err = rsk_pm_msg_validate(&m);
	if (err)
		return err;
	*out = m;
	return 0;
}

ssize_t rsk_pm_msg_encode(const struct rsk_pm_msg *msg, void *buf, size_t cap)
{
	size_t len = msg->mapped ? RSK_PM_WIRE_MAPPED_BYTES : RSK_PM_WIRE_BYTES;
	struct rsk_pm_wire w = { 0 };
	int err = rsk_pm_msg_validate(msg);

	if (err)
		return err;
	if (cap < len)
		return -ENOBUFS;
	w.magic = (uint8_t)(RSK_PM_VERSION << 6 | (unsigned int)msg->op << 4 | msg->ipv);
	w.pm_time_s = msg->pm_time_s;
	w.mapped_cp_port = htobe16(msg->mapped_cp_port);
	w.ap_port = htobe16(msg->ap_port);
	w.cp_port = htobe16(msg->cp_port);
	w.assoc_handle = htobe64(msg->assoc_handle);
	memcpy(w.cp_ip, msg->cp_ip, sizeof(w.cp_ip));
	memcpy(w.ap_ip, msg->ap_ip, sizeof(w.ap_ip));
	memcpy(w.mapped_cp_ip, msg->mapped_cp_ip, sizeof(w.mapped_cp_ip));
	memcpy(buf, &w, len);
	return (ssize_t)len;
}

/* The fields that every answer repeats: the transaction's name and the IP version. */
static struct rsk_pm_msg answer_to(const struct rsk_pm_msg *msg, enum rsk_pm_op op)
{
	struct rsk_pm_msg m = {
		.op = op,
		.ipv = msg->ipv,
		.ap_port = msg->ap_port,
		.cp_port = msg->cp_port,
		.assoc_handle = msg->assoc_handle,
	};

	memcpy(m.cp_ip, msg->cp_ip, sizeof(m.cp_ip));
	memcpy(m.ap_ip, msg->ap_ip, sizeof(m.ap_ip));
	return m;
}

static int answer_out(const struct rsk_pm_msg *answer, struct rsk_pm_msg *out)
{
	if (rsk_pm_msg_validate(answer))
		return -EINVAL;
	*out = *answer;
	return 0;
}

int rsk_pm_msg_accept(const struct rsk_pm_msg *req, const uint8_t ap_ip[static 16],
		      uint16_t ap_port, uint8_t pm_time_s, struct rsk_pm_msg *out)
{
	struct rsk_pm_msg m;

	if (req->op != RSK_PM_REQ)
		return -EINVAL;
	m = answer_to(req, RSK_PM_ACCEPT);
	memcpy(m.ap_ip, ap_ip, sizeof(m.ap_ip));
	m.ap_port = ap_port;
	m.pm_time_s = pm_time_s;
	return answer_out(&m, out);
}

int rsk_pm_msg_deny(const struct rsk_pm_msg *req, struct rsk_pm_msg *out)
{
	struct rsk_pm_msg m;

	if (req->op != RSK_PM_REQ)
		return -EINVAL;
	m = answer_to(req, RSK_PM_DENY);
	return answer_out(&m, out);
}

int rsk_pm_msg_ack(const struct rsk_pm_msg *accept, struct rsk_pm_msg *out)
{
	struct rsk_pm_msg m;

	if (accept->op != RSK_PM_ACCEPT)
		return -EINVAL;
	m = answer_to(accept, RSK_PM_ACK);
	return answer_out(&m, out);
}

bool rsk_pm_msg_answers(const struct rsk_pm_msg *answer, const struct rsk_pm_msg *req)
{
	if (req->op != RSK_PM_REQ)
		return false;
	if (answer->op != RSK_PM_ACCEPT && answer->op != RSK_PM_DENY)
		return false;
	return answer->ipv == req->ipv && answer->assoc_handle == req->assoc_handle &&
	       answer->cp_port == req->cp_port &&
	       memcmp(answer->cp_ip, req->cp_ip, sizeof(req->cp_ip)) == 0;
}
