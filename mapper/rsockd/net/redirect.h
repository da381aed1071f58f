/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redirect.h - forwards a PMReq that another host has to answer instead of this one. It is sent
 * there in an envelope that names its source, and the PMAccept goes directly to that source. An
 * envelope is accepted only from hosts that the configuration names, since its sender can have
 * answers sent to any address. agent.c and daemon_open.c call this.
 *
 *	bytes 0-3 "RSKR" (no version of the protocol begins so), 4 IPV, 5 hops so far,
 *	6-7 source port, 8-23 source address (IPv4: first 4 bytes, rest 0); then the PMReq as it
 *	came. Big-endian.
 */
#ifndef RSK_REDIRECT_H
#define RSK_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "pm_addr.h"
#include "pm_msg.h"

#define RSK_REDIRECT_HEAD_BYTES 24
#define RSK_REDIRECT_BYTES (RSK_REDIRECT_HEAD_BYTES + RSK_PM_WIRE_MAPPED_BYTES)
/* after so many it is dropped: the rules of two hosts may name each other */
#define RSK_REDIRECT_HOPS 4

/*
 * Writes the envelope of @req to @out. Returns its length in bytes; -ELOOP after too many hops;
 * -EINVAL if @req is not a PMReq.
 */
ssize_t rsk_redirect_wrap(const struct rsk_pm_msg *req, const struct rsk_pm_addr *from,
			  uint8_t hops, uint8_t out[static RSK_REDIRECT_BYTES]);

/*
 * True if the datagram is an envelope; then *from and *hops are set. The PMReq follows the head of
 * RSK_REDIRECT_HEAD_BYTES.
 */
bool rsk_redirect_unwrap(const uint8_t *datagram, size_t bytes, struct rsk_pm_addr *from,
			 uint8_t *hops);

/* True if the configuration allows envelopes from @who. */
bool rsk_redirect_allowed(const struct rsk_conf_daemon *settings, const struct rsk_pm_addr *who);

#endif
