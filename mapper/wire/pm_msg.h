/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_msg.h - port mapper messages in host form: encode, decode, validate, answer. Used by rsockd
 * and by the library's PM transaction.
 *
 * Pure: no clock, no sockets, no state; everything here is async-signal-safe and never blocks.
 */
#ifndef RSK_MAPPER_PM_MSG_H
#define RSK_MAPPER_PM_MSG_H

#include <rsock/pm_wire.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * One message, numbers in host order; it contains no pointers. A decoded message is canonical: what
 * the protocol says is ignored on receipt (PmTime outside PMAccept, reserved bytes, bytes behind an
 * IPv4 address) is zero.
 */
struct rsk_pm_msg {
	enum rsk_pm_op op;
	uint8_t ipv;	   /* RSK_PM_IPV4 or RSK_PM_IPV6 */
	uint8_t pm_time_s; /* PMAccept only */
	bool mapped;	   /* PMReq only: the two mapped fields are there (64 bytes) */
	uint16_t ap_port;
	uint16_t cp_port; /* 0: service mapping, else connection upgrade */
	uint16_t mapped_cp_port;
	uint64_t assoc_handle;
	uint8_t cp_ip[16];
	uint8_t ap_ip[16];
	uint8_t mapped_cp_ip[16];
};

/*
 * Checks the invariants of a message that may be sent or acted on. Returns 0, -EINVAL (op, ports,
 * handle, field that this op does not carry) or -EAFNOSUPPORT (IPV, or bytes behind an IPv4
 * address).
 */
int rsk_pm_msg_validate(const struct rsk_pm_msg *msg);

/*
 * Reads a datagram of len bytes.
 * Sizes other than 48 and 64 and more are refused, as iwpmd does; spare bytes are
 * ignored.  *out is written only on success, and is then valid and canonical.
 * Returns 0, -EMSGSIZE, -EPROTONOSUPPORT (version), or what validate says.
 */
int rsk_pm_msg_decode(const void *buf, size_t len, struct rsk_pm_msg *out);

/*
 * Writes the message; spare bytes are zero.
 * Returns the bytes written (48, or 64 for a mapped PMReq), -ENOBUFS, or what
 * validate says.
 */
ssize_t rsk_pm_msg_encode(const struct rsk_pm_msg *msg, void *buf, size_t cap);

/*
 * PMAccept to a PMReq: CpPort, AssocHandle and CpIPaddr from the request; the RDMA
 * address (16 bytes, IPv4 in the first 4), its port and PmTime from the PMSP.
 * Returns 0 or -EINVAL (not a PMReq, or an unusable address).
 */
int rsk_pm_msg_accept(const struct rsk_pm_msg *req, const uint8_t ap_ip[static 16],
		      uint16_t ap_port, uint8_t pm_time_s, struct rsk_pm_msg *out);

/* PMDeny to a PMReq: everything from the request.  Returns 0 or -EINVAL. */
int rsk_pm_msg_deny(const struct rsk_pm_msg *req, struct rsk_pm_msg *out);

/*
 * PMAck to a PMAccept: built from what the PMAccept says and from nothing else,
 * since a redirected request is answered by a host that was never asked.
 * Returns 0 or -EINVAL.
 */
int rsk_pm_msg_ack(const struct rsk_pm_msg *accept, struct rsk_pm_msg *out);

/*
 * True if this PMAccept or PMDeny answers this PMReq. (AssocHandle, CpIPaddr, CpPort) name the
 * transaction; the AP's address may differ.
 */
bool rsk_pm_msg_answers(const struct rsk_pm_msg *answer, const struct rsk_pm_msg *req);

#endif /* RSK_MAPPER_PM_MSG_H */
